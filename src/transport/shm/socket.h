#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "control_socket.h"
#include "core/bytes.h"

/// Packets over a Unix socket (SOCK_SEQPACKET), each with at most two descriptors.
namespace crossdock::transport::shm {

inline constexpr std::size_t kMaxPacket = 512;
inline constexpr std::size_t kMaxDescriptors = 2;

struct Packet {
  std::array<std::byte, kMaxPacket> bytes;
  std::size_t size = 0;
  std::array<PassedFd, kMaxDescriptors> fds;
  int descriptors = 0;           ///< How many arrived; those beyond `fds` are closed elsewhere.
  bool too_long = false;         ///< The packet was truncated: no packet of this protocol is that long.
  bool descriptors_cut = false;  ///< Some descriptors didn't arrive: this process can't open more.
  bool left_in_queue = false;    ///< Of receive_plain_packet(): it has descriptors, and is still in the queue.
  ByteSpan content() const noexcept { return ByteSpan(bytes).first(size); }
};

enum class Received : std::uint8_t { kPacket, kNothing, kEnd };
enum class Sent : std::uint8_t { kSent, kFull, kGone };

/// Receives the next packet, without waiting, also not for a descriptor to be closed (see ControlSocket). A packet of
/// which descriptors were cut stays in the queue: end the connection. Treats an empty packet as the end. kEnd: the peer
/// has closed the socket or died, and everything that it sent was received. Throws SystemError, whose text begins with
/// `where`.
Received receive_packet(int socket, Packet* packet, const std::string& where);

/// Like receive_packet(), for an end that accepts no descriptors. A packet with descriptors stays in the queue: see
/// Packet::left_in_queue; nothing can be received after it.
Received receive_plain_packet(int socket, Packet* packet, const std::string& where);

/// Sends a packet with up to kMaxDescriptors descriptors, without waiting. Throws SystemError, whose text begins with
/// `where`.
Sent send_packet(int socket, ByteSpan bytes, std::span<const int> fds, const std::string& where);

/// Returns true once the peer has closed its end or died. Makes one system call; reads nothing.
bool peer_has_gone(int socket) noexcept;

struct Credentials {
  std::uint32_t pid = 0;
  std::uint32_t uid = 0;
};
Credentials peer_credentials(int socket, const std::string& where);

}  // namespace crossdock::transport::shm
