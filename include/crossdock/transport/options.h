#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crossdock/core/chrono.h"
#include "crossdock/transport/interrupt.h"

/// The choices that a program has for waiting and for each transport.
namespace crossdock::transport {

/// How a thread waits for the other end.
enum class WaitMode : std::uint8_t {
  kAuto,   ///< Spins for some tens of microseconds, then sleeps. While a long body is on its way, sleeps at once.
  kSpin,   ///< Never sleeps: lowest latency, but uses a whole core.
  kBlock,  ///< Sleeps at once; a server first polls for a few microseconds, less than falling asleep takes.
};

/// How the bodies of batches reach the other end.
enum class Way : std::uint8_t {
  kMap = 1,      ///< By address: the receiver has the memory itself, mapped or opened by its device's driver.
  kRead = 2,     ///< By address: the receiver reads what it needs into its own memory.
  kMessage = 4,  ///< By value: the bytes are sent.
};
/// A set of ways.
class Ways {
 public:
  /// Makes an empty set.
  constexpr Ways() noexcept = default;
  /// Makes a set of one. Implicit, because a way is such a set.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Ways(Way way) noexcept : bits_(static_cast<std::uint8_t>(way)) {}
  /// Takes the bits of a peer's packet. Unknown bits are dropped.
  static constexpr Ways from_bits(std::uint32_t bits) noexcept {
    Ways ways;
    ways.bits_ = static_cast<std::uint8_t>(bits & 7U);
    return ways;
  }
  /// Returns the ways as bits of Way's numbers.
  constexpr std::uint8_t bits() const noexcept { return bits_; }
  /// Returns true if `way` is one of them.
  constexpr bool has(Way way) const noexcept { return (bits_ & static_cast<std::uint8_t>(way)) != 0; }
  /// Returns true if there is none: bodies can't reach the other end.
  constexpr bool empty() const noexcept { return bits_ == 0; }
  /// Returns the ways of either set.
  friend constexpr Ways operator|(Ways a, Ways b) noexcept { return from_bits(a.bits_ | std::uint32_t{b.bits_}); }
  /// Returns the ways that both sets have.
  friend constexpr Ways operator&(Ways a, Ways b) noexcept { return from_bits(a.bits_ & std::uint32_t{b.bits_}); }
  bool operator==(const Ways&) const = default;

 private:
  std::uint8_t bits_ = 0;
};
/// Returns both ways.
constexpr Ways operator|(Way a, Way b) noexcept { return Ways(a) | Ways(b); }

/// Options of `shm:`, shared memory between processes of one machine.
struct ShmOptions {
  /// Size of the ring for one direction: a power of two from 64 KiB to 1 GiB. Only a listener's value is used: the
  /// listener makes both rings of a connection, and allocates all of their memory when a client connects.
  std::uint64_t ring_bytes = 1 << 20;
  /// Larger messages are rejected at the sender, and end the connection at the receiver.
  std::uint64_t max_message = 64ull << 20;
  /// Longest message that a listener accepts from a client (clients only request streams and free addresses); at most
  /// max_message.
  std::uint64_t max_request = 1ull << 20;
  /// Longest body by value that is accepted from the peer; 0: none.
  std::uint64_t max_body = 64ull << 30;
  /// Limits the bytes of regions of one connection's peer that may be mapped in this process. Batches that are still
  /// held count. A region over the limit ends the connection (ProtocolError).
  std::uint64_t max_region_bytes = 1ull << 40;
  /// Limits the number of such regions, in the same way. 0: no memory by address is accepted.
  std::uint32_t max_regions = 65536;
  /// The time in which a client must have completed its handshake, else the listener rejects it; above 0. The time that
  /// a client waits for is ClientOptions::timeout.
  std::chrono::milliseconds handshake_timeout{5000};
  /// Server: user ids that may connect, in addition to the server's own. The mode of the socket follows from this:
  /// 0600, or 0666 in a directory that these users can reach. Client: user ids whose servers are trusted to supply
  /// data, in addition to the client's own and root.
  std::vector<std::uint32_t> other_users = {};
  bool any_user = false;     ///< Every user of this machine counts as one of `other_users`.
  bool accept_files = true;  ///< Client: accepts kFile regions. If false: ProtocolError, which names the option.
};

/// Whether each frame has a CRC-32C. With it, bytes that were changed on the way end the connection (ProtocolError) and
/// are never delivered. Used if both ends know it and one of them requests it.
enum class Checksum : std::uint8_t {
  kAuto,  ///< Doesn't request it: the peer decides.
  kOn,    ///< Requests it; a peer that doesn't know it, or has kOff, is rejected (HandshakeError).
  kOff,   ///< Never: a peer that requests it is rejected (HandshakeError).
};

/// Certificates and keys of an end that speaks TLS: texts in PEM form, not names of files.
struct TlsOptions {
  /// This end's certificate, and after it those of its issuers up to a root, which may be left out. A server needs it;
  /// a client only if the server requires one.
  std::string certificate_chain = {};
  /// The key of the first certificate, not encrypted.
  std::string private_key = {};
  /// Client: the issuers that it trusts; empty: those that OpenSSL trusts by default (SSL_CERT_FILE, SSL_CERT_DIR). A
  /// certificate that has signed itself can stand here, too.
  std::string roots = {};
  /// Server: the issuers of clients' certificates. If it isn't empty, every client must have such a certificate.
  std::string client_roots = {};
  /// Client: the name or the address that the server's certificate must have; empty: the host of the URI.
  std::string server_name = {};
};

/// Options of `tcp:` and of `tcp+tls:`.
struct TcpOptions {
  /// Larger messages are rejected at the sender, and end the connection at the receiver.
  std::uint64_t max_message = 64ull << 20;
  /// Longest message that a listener accepts from a client (clients only request streams and free addresses); at most
  /// max_message.
  std::uint64_t max_request = 1ull << 20;
  /// Longest body by value that is accepted from the peer; 0: none.
  std::uint64_t max_body = 64ull << 30;
  /// A secret that both ends must know, 1 to 1024 bytes; empty: none. The handshake proves knowledge of it and never
  /// sends it. An attacker who records a handshake can try guesses offline, so make it long and random. It doesn't
  /// encrypt the connection.
  std::string token = {};
  /// Detects damage by the network. Doesn't protect from an attacker who changes bytes on purpose.
  Checksum checksum = Checksum::kAuto;
  /// The time in which a client must have completed its handshake, as in ShmOptions.
  std::chrono::milliseconds handshake_timeout{5000};
  /// Bytes that send() may copy and keep while the socket is full, for one connection.
  std::size_t queue_bytes = 256 << 10;
  int send_buffer = 0;     ///< SO_SNDBUF, bytes; 0: the system's, which grows as needed.
  int receive_buffer = 0;  ///< SO_RCVBUF, bytes; 0: the system's, which grows as needed.
  /// The silence before the connection is probed; 0: never. The connection is dead after three unanswered probes; these
  /// are sent at the same interval, but at most 10 s apart. The system doesn't probe while sent bytes wait to be
  /// acknowledged: user_timeout limits that time.
  std::chrono::seconds keepalive{30};
  /// TCP_USER_TIMEOUT: ends the connection if sent bytes aren't acknowledged for this time; 0: the system's default,
  /// about 15 minutes. Also ends the connection to a peer that is alive but doesn't read.
  std::chrono::milliseconds user_timeout{0};
  /// Host that the URI of a listener names if it listens at every address of the machine; empty: the host's name.
  std::string advertised_host = {};
};

/// Options of `fabric:`.
struct FabricOptions {
  /// Larger messages are rejected at the sender, and end the connection at the receiver.
  std::uint64_t max_message = 64ull << 20;
  /// Longest message that a listener accepts from a client (clients only request streams and free addresses); at most
  /// max_message.
  std::uint64_t max_request = 1ull << 20;
  /// Longest body by value that is accepted from the peer, and the most bytes of one body that are read from the peer's
  /// memory; 0: none.
  std::uint64_t max_body = 64ull << 30;
  /// A secret that both ends must know, as in TcpOptions.
  std::string token = {};
  /// The time in which a client must have completed its handshake, as in ShmOptions.
  std::chrono::milliseconds handshake_timeout{5000};
  /// Bytes that send() may copy and keep while the link is full, for one connection.
  std::size_t queue_bytes = 256 << 10;
  int send_buffer = 0;     ///< SO_SNDBUF of the link, bytes; 0: the system's, which grows as needed.
  int receive_buffer = 0;  ///< SO_RCVBUF of the link, bytes; 0: the system's, which grows as needed.
  /// Host that the URI of a listener names if it listens at every address of the machine; empty: the host's name.
  std::string advertised_host = {};
  /// Paths of libfabric's library to try before the system's.
  std::vector<std::string> libraries = {};
  /// libfabric's provider of the endpoints, the same at both ends.
  std::string provider = "tcp;ofi_rxm";
  /// Whether clients may read the memory of published tables from afar. The provider checks the key and the bounds of
  /// each read. Used if both ends have it.
  bool remote_reads = true;
  /// The silence before the link is probed; 0: never. The connection is dead after three unanswered probes at the same
  /// interval, at most 10 s apart.
  std::chrono::seconds keepalive{2};
  /// TCP_USER_TIMEOUT of the link: ends the connection if sent bytes aren't acknowledged, or probes aren't answered,
  /// for this time; 0: the system's default. Also ends the connection to a peer that is alive and leaves the link full:
  /// only metadata and requests go over the link.
  std::chrono::milliseconds user_timeout{8000};
};

/// Options of `ucx:`.
struct UcxOptions {
  /// Larger messages are rejected at the sender, and end the connection at the receiver.
  std::uint64_t max_message = 64ull << 20;
  /// Longest message that a listener accepts from a client (clients only request streams and free addresses); at most
  /// max_message.
  std::uint64_t max_request = 1ull << 20;
  /// Longest body by value that is accepted from the peer, and the most bytes of one body that are read from the peer's
  /// memory; 0: none.
  std::uint64_t max_body = 64ull << 30;
  /// A secret that both ends must know, as in TcpOptions.
  std::string token = {};
  /// The time in which a client must have completed its handshake, as in ShmOptions.
  std::chrono::milliseconds handshake_timeout{5000};
  /// Bytes that send() may copy and keep while the network is full, for one connection. Small parts of bodies are
  /// copied besides, up to 8 MiB for one connection, and 64 MiB for all that use one network interface.
  std::size_t queue_bytes = 256 << 10;
  /// Host that the URI of a listener names if it listens at every address of the machine; empty: the host's name.
  std::string advertised_host = {};
  /// Paths of UCX's library libucp to try before the system's, for example that of the Python package libucx-cu12.
  std::vector<std::string> libraries = {};
  /// The transports that UCX may use, as in UCX_TLS. Within a machine, UCX's own shared memory doesn't wake a thread
  /// that sleeps; use `shm:` there.
  std::string transports = "^posix,sysv,cma,xpmem,knem";
  /// The network devices that UCX may use, as in UCX_NET_DEVICES; empty: the interface of the address, and its RDMA
  /// devices.
  std::string net_devices = {};
  /// For peers strictly as specified: lets them read memory by address and remote_handle. Every process that reaches
  /// this one over UCX can then read and write **all** of its memory, and a client that is killed in the middle of a
  /// read can end the server's process. A token doesn't help, and isn't accepted together with it. Reads between two
  /// ends of Crossdock don't need it.
  bool remote_reads = false;
  /// Limits the regions of one connection's peer that may be known at once, for reads.
  std::uint32_t max_regions = 65536;
  /// The time between UCX's probes of an idle connection. A client that waits for the rest of a message also sends one
  /// that often, and an idle one a fifth as often, so that user_timeout finds a server that has vanished. 0: UCX probes
  /// every 20 s, its default, and the client sends none.
  std::chrono::seconds keepalive{2};
  /// Ends a tcp connection of UCX's if sent bytes aren't acknowledged for this time; 0: UCX's default, which is none.
  /// Versions before 1.22 don't know it. Also ends the connection to a peer that is alive but doesn't read, such as a
  /// slow consumer. So without a value it is 5 s for a client, and 0 for a listener.
  std::optional<std::chrono::milliseconds> user_timeout = {};
};

}  // namespace crossdock::transport
