#include "link.h"

#include <algorithm>
#include <utility>

namespace crossdock::simulation {

void Link::send(Packet packet, std::uint64_t now) {
  if (closed_ || cut_) return;
  std::uint64_t arrives = now;
  const std::uint32_t pieces = 1 + random_.below(4);
  for (std::uint32_t i = 0; i < pieces; ++i) arrives = std::max(arrives, now + random_.below(most_delay_ + 1));
  if (order_ == Order::kInOrder) arrives = std::max({arrives, latest_[0], latest_[1]});
  if (order_ == Order::kKindsOvertake) arrives = std::max(arrives, latest_[packet.tagged]);
  if (packet.request) latest_request_ = arrives = std::max(arrives, latest_request_);
  latest_[packet.tagged] = arrives;
  in_flight_.push_back({arrives, serial_++, std::move(packet)});
}

std::size_t Link::first() const noexcept {
  const auto earlier = [](const Travelling& a, const Travelling& b) {
    return std::pair(a.arrives, a.serial) < std::pair(b.arrives, b.serial);
  };
  return static_cast<std::size_t>(std::min_element(in_flight_.begin(), in_flight_.end(), earlier) - in_flight_.begin());
}

std::optional<Packet> Link::receive(std::uint64_t now) {
  if (in_flight_.empty()) return std::nullopt;
  const auto at = in_flight_.begin() + static_cast<std::ptrdiff_t>(first());
  if (at->arrives > now) return std::nullopt;
  Packet packet = std::move(at->packet);
  in_flight_.erase(at);
  return packet;
}

void Link::cut(std::uint64_t now) {
  cut_ = true;
  std::erase_if(in_flight_, [&](const Travelling& message) { return message.arrives > now; });
}

std::optional<std::uint64_t> Link::next_arrival() const noexcept {
  if (in_flight_.empty()) return std::nullopt;
  return in_flight_[first()].arrives;
}

}  // namespace crossdock::simulation
