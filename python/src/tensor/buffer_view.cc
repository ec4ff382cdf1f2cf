#include "buffer_view.h"

#include <memory>
#include <new>

#include "../deferred.h"
#include "../gil.h"

namespace crossdock::python {
namespace {

class ReleaseBuffer final : public Deferred {
 public:
  explicit ReleaseBuffer(const Py_buffer& view) noexcept : view_(view) {}
  void run() noexcept override { PyBuffer_Release(&view_); }

 private:
  Py_buffer view_;
};

}  // namespace

PyBufferView::~PyBufferView() {
  if (view.obj == nullptr || interpreter_ending()) return;
  if (holds_gil()) {
    PyBuffer_Release(&view);
    return;
  }
  auto* const task = new (std::nothrow) ReleaseBuffer(view);
  if (task != nullptr) defer(std::unique_ptr<Deferred>(task));
}

}  // namespace crossdock::python
