#include "buffer_view.h"

#include "../deferred.h"
#include "../gil.h"

namespace crossdock::python {

PyBufferView::~PyBufferView() {
  if (view.obj == nullptr || interpreter_ending()) return;
  if (holds_gil()) {
    PyBuffer_Release(&view);
  } else {
    defer_call([held = view]() mutable { PyBuffer_Release(&held); });
  }
}

}  // namespace crossdock::python
