#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "crossdock/session/client.h"

namespace crossdock::python {

/// What passed on a stream since somebody last asked: filled by whatever thread sends, receives or drops a batch, none
/// of which needs the interpreter lock for it. Bounded: what is over is counted and left out.
class StreamLog {
 public:
  StreamLog(bool messages, bool batches);
  /// Makes a stream write here what was asked for.
  void attach(session::GetOptions* options) const;

  nanobind::list take_messages();
  nanobind::list take_batches();
  std::size_t left_out() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  bool messages_;
  bool batches_;
};

void bind_inspect(nanobind::module_& module);

}  // namespace crossdock::python
