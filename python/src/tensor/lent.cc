#include "lent.h"

#include <memory>
#include <new>

#include "../deferred.h"
#include "../gil.h"

namespace crossdock::python {
namespace {

class GiveBack final : public Deferred {
 public:
  explicit GiveBack(const Py_buffer& lent) noexcept : view_(lent) {}
  void run() noexcept override { PyBuffer_Release(&view_); }

 private:
  Py_buffer view_;
};

}  // namespace

Lent::~Lent() {
  if (view.obj == nullptr || interpreter_ending()) return;
  if (holds_lock()) {
    PyBuffer_Release(&view);
    return;
  }
  auto* const task = new (std::nothrow) GiveBack(view);
  if (task != nullptr) defer(std::unique_ptr<Deferred>(task));
}

}  // namespace crossdock::python
