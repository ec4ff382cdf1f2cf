#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "core/fork.h"
#include "device/region.h"
#include "traffic.h"
#include "transport/internal/closing_ends.h"
#include "transport/net/stream_connection.h"

namespace crossdock::transport::fabric {

/// The link and the endpoint of a connection that this process has closed, while the peer may still need them: until it
/// has every body, and, if it may read regions, until it closes. Destroying it says goodbye if the peer has every body.
/// In a forked child it does nothing.
class FabricClosingEnd final : public ClosingEnd {
 public:
  using Regions = std::map<std::uint16_t, std::shared_ptr<const device::Region>>;

  /// The peer may read `announced`.
  FabricClosingEnd(net::Link&& link, std::unique_ptr<Traffic>&& traffic, Regions&& announced) noexcept
      : announced_(std::move(announced)), link_(std::move(link)), traffic_(std::move(traffic)) {}
  ~FabricClosingEnd() override;
  FabricClosingEnd(const FabricClosingEnd&) = delete;
  FabricClosingEnd& operator=(const FabricClosingEnd&) = delete;

  bool arm() override { return traffic_->may_sleep() && !traffic_->broken(); }
  int descriptor() const noexcept override { return link_.poll.get(); }

 private:
  bool step() override;

  const ForkGuard fork_;
  const Regions announced_;
  net::Link link_;
  const std::unique_ptr<Traffic> traffic_;
};

}  // namespace crossdock::transport::fabric
