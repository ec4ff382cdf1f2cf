#pragma once

#include <nanobind/nanobind.h>

#include "crossdock/peers/message.h"

namespace crossdock::python {

/// _native.PeerFrame: a frame that was received, with the buffer protocol. It and the buffers exported from it keep the
/// frame's memory.
struct PyPeerFrame {
  peers::Frame frame;
  bool writable;
};

/// Returns a list of PeerFrames. `writable`: the message was made so. Needs the GIL.
nanobind::list list_of_frames(const peers::Message& message, bool writable);

void bind_peer_frame(nanobind::module_& module);

}  // namespace crossdock::python
