#include <stdexcept>

#include "crossdock/core/error.h"
#include "transport/transport.h"

// What concerns regions, for transports that share no memory. They have no region to be asked for, so only a wrong
// caller or a wrong peer gets here.
namespace crossdock::transport {

std::optional<std::uint64_t> Connection::announce(std::uint16_t, const std::shared_ptr<const device::Region>&) {
  throw std::logic_error(agreement().carrier + ": a connection to " + agreement().peer +
                         " shares no memory; send bodies by value");
}

// This and read() get an owner by value, because other implementations keep it.
bool Connection::send_device_body(std::uint64_t, std::span<const ByteSpan>, const device::Device& device,
                                  std::shared_ptr<const void>) {  // NOLINT(performance-unnecessary-value-param)
  throw std::logic_error(agreement().carrier + ": a connection to " + agreement().peer + " doesn't reach memory of " +
                         device::to_string(device));
}

bool Connection::retire(std::uint16_t) {
  throw std::logic_error(agreement().carrier + ": a connection to " + agreement().peer +
                         " shares no memory, so there is no region to retire");
}

std::shared_ptr<const PeerRegion> Connection::peer_region(std::uint64_t address, int, const InterruptHook&) {
  throw ProtocolError(agreement().peer + " sent the address " + std::to_string(address) + ", but " +
                      agreement().carrier + " shares no memory");
}

SpecifiedServer Listener::offer(const std::shared_ptr<const device::Region>&) {
  throw UnsupportedError("clients of " + uri() + " use no remote_handle; that is for ucx");
}

// NOLINTNEXTLINE(performance-unnecessary-value-param)
std::unique_ptr<Reading> Connection::read(std::span<const ReadPart>, std::shared_ptr<const void>) {
  throw std::logic_error(agreement().carrier + ": a connection to " + agreement().peer +
                         " reads no memory of its peer");
}

}  // namespace crossdock::transport
