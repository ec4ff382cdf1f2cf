#include "handshake.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "barrier.h"
#include "crossdock/core/error.h"

namespace crossdock::transport::shm {

std::uint64_t own_features() noexcept {
  return kFeatureErrorMessages | kFeatureCountedLeases | kFeatureCancel | kFeatureRetiresAtRest |
         (register_for_barriers() ? kFeatureBarriers : 0);
}

std::unique_ptr<ShmConnection> join(std::shared_ptr<ControlSocket> socket, RingMemory own, RingMemory peer,
                                    const Introduction& introduction, const ShmOptions& options) {
  const std::uint64_t common = own_features() & introduction.peer_features;
  // Initialized separately, and before the other members: g++ 12 destroys members of a nested aggregate twice if a
  // later initializer throws.
  Agreement agreement{.want_data = introduction.want_data,
                      .free_data = introduction.free_data,
                      .role = introduction.role,
                      .error_messages = (common & kFeatureErrorMessages) != 0,
                      .counted_leases = (common & kFeatureCountedLeases) != 0,
                      .cancel = (common & kFeatureCancel) != 0,
                      .same_user = introduction.peer.uid == ::geteuid(),
                      .peer_pid = introduction.peer.pid,
                      .peer_uid = introduction.peer.uid,
                      .peer = introduction.where};
  std::string where = introduction.where;
  ShmConnection::Parts parts{
      .socket = std::move(socket),
      .own = std::move(own),
      .peer = std::move(peer),
      .agreement = std::move(agreement),
      .expedited_barriers = (common & kFeatureBarriers) != 0,
      .retires_at_rest = (common & kFeatureRetiresAtRest) != 0,
      .send_limit = std::min(options.max_message, introduction.peer_max_message),
      .take_limit = introduction.max_message,
      .body_limit = introduction.peer_max_body,
      .where = std::move(where),
  };
  return std::make_unique<ShmConnection>(std::move(parts), options);
}

void check_options(const ShmOptions& options) {
  check_ring_bytes(options.ring_bytes);
  if (options.max_message == 0) throw InvalidArgumentError("ShmOptions::max_message is 0: no message could pass");
  if (options.max_request == 0) throw InvalidArgumentError("ShmOptions::max_request is 0: nobody could ask");
  if (options.handshake_timeout_ms <= 0) {
    throw InvalidArgumentError("ShmOptions::handshake_timeout_ms is " + std::to_string(options.handshake_timeout_ms) +
                               "; it must be above 0");
  }
}

std::string name_peer(const std::string& path, const Credentials& peer) {
  return "shm:" + path + " (process " + std::to_string(peer.pid) + " of user " + std::to_string(peer.uid) + ")";
}

}  // namespace crossdock::transport::shm
