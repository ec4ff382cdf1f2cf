#pragma once

#include "transport/transport.h"

namespace crossdock::session {

/// The facts that decide how the bodies of one stream go.
struct WayQuestion {
  transport::Ways agreed{};  ///< Agreement::ways.
  transport::Ways
      of_regions{};            ///< Those by which all regions of the source can go; without meaning for a live stream.
  bool on_device = false;      ///< The source's memory is a device's, and `of_regions` are the ways by which it can go.
  bool host_copy = false;      ///< A copy on the host of a source in memory of a device.
  bool live = false;           ///< A live stream: its regions are made as it goes.
  bool tcp = false;            ///< The transport is tcp or tcp+tls, which has messages alone.
  bool one_sided = false;      ///< Agreement::one_sided.
  bool wants_parts = false;    ///< Agreement::wants_parts.
  bool prefers_reads = false;  ///< Agreement::prefers_reads.
};
struct WayAnswer {
  transport::Way way = transport::Way::kMessage;
  const char* why = "";  ///< For people: a literal. Empty: the connection carries no bodies.
};
/// Chooses how the bodies of a stream go. Pure. Throws UnsupportedError, which says what each end can do, if they can
/// go by no way that the consumer accepts.
WayAnswer choose_way(const WayQuestion& question);

}  // namespace crossdock::session
