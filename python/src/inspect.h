#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "crossdock/session/client.h"

namespace crossdock::python {

/// Collects the messages and batches of a stream until Python takes them. Any thread that sends, receives or drops a
/// batch adds to it, without the GIL. Its size is bounded: entries over the limit are dropped and counted.
class StreamLog {
 public:
  StreamLog(bool messages, bool batches);
  /// Sets observers in `options`, so that a stream adds its messages, batches, or both, as the constructor was told.
  void attach(session::GetOptions* options) const;
  void attach(session::TensorOptions* options) const;  ///< Of tensors there are messages alone.

  nanobind::list take_messages();
  nanobind::list take_batches();
  std::size_t left_out() const;

 private:
  session::WireObserver message_observer() const;

  struct Shared;
  std::shared_ptr<Shared> shared_;
  bool messages_;
  bool batches_;
};

void bind_inspect(nanobind::module_& module);

}  // namespace crossdock::python
