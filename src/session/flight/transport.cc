#include "session/flight/transport.h"

#include "core/text.h"
#include "core/user_info.h"
#include "crossdock/core/error.h"
#include "session/flight/do_get.h"
#include "transport/ways.h"

namespace crossdock::session {

std::unique_ptr<transport::Listener> FlightTransport::listen(const std::string& address, std::uint64_t, std::uint64_t,
                                                             LogCallback) const {
  throw UnsupportedError("a Flight server is beside the addresses of a server: give " + scheme_ + ":" +
                         excerpt(without_user(address)) + " as flight=, and another URI as the address");
}

std::unique_ptr<transport::Connection> FlightTransport::connect(const std::string& address,
                                                                const transport::ConnectOptions& wishes, int,
                                                                const transport::InterruptHook&) const {
  static_cast<void>(transport::agreed_ways(wishes.ways, ways(), scheme_ + ":" + address));
  if (wishes.role != ChannelRole::kBoth) {
    throw UnsupportedError("Flight sends metadata and bodies over one connection: give one URI");
  }
  return std::make_unique<DoGetConnection>(channel(address));
}

std::shared_ptr<FlightChannel> FlightTransport::channel(const std::string& address) const {
  const std::lock_guard lock(mutex_);
  if (address == last_address_) {
    if (auto known = last_.lock()) return known;
  }
  auto made = FlightChannel::open(scheme_, address, options_, tls_ ? &*tls_ : nullptr);
  last_address_ = address;
  last_ = made;
  return made;
}

}  // namespace crossdock::session
