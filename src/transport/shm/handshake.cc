#include "handshake.h"

#include "barrier.h"
#include "crossdock/core/error.h"
#include "packets.h"
#include "ring_memory.h"

namespace crossdock::transport::shm {

std::uint64_t own_features() noexcept {
  return kFeatureErrorMessages | kFeatureCountedLeases | kFeatureCancel | kFeatureRetiresAtRest | kFeatureParameters |
         (register_for_barriers() ? kFeatureBarriers : 0);
}

void check_options(const ShmOptions& options) {
  check_ring_bytes(options.ring_bytes);
  if (options.max_message == 0) throw InvalidArgumentError("ShmOptions::max_message is 0: no message could be sent");
  if (options.max_request == 0)
    throw InvalidArgumentError("ShmOptions::max_request is 0: no client could request a stream");
  if (options.handshake_timeout.count() <= 0) {
    throw InvalidArgumentError("ShmOptions::handshake_timeout is " + std::to_string(options.handshake_timeout.count()) +
                               " ms; it must be above 0");
  }
}

std::optional<DeviceName> name_of(const std::shared_ptr<device::Context>& device) {
  if (!device || device->native_context()) return std::nullopt;
  DeviceName name{std::string(device->driver_name()), device->identity()};
  constexpr std::size_t kMost = 64;  // of a packet's fields
  if (name.identity.empty() || name.identity.size() > kMost || name.driver.size() > kMost) return std::nullopt;
  return name;
}

std::string name_peer(const std::string& path, const Credentials& peer) {
  return "shm:" + path + " (process " + std::to_string(peer.pid) + " of user " + std::to_string(peer.uid) + ")";
}

}  // namespace crossdock::transport::shm
