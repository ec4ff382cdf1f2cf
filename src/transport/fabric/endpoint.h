#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/fork.h"
#include "domain.h"

namespace crossdock::transport::fabric {

/// A send, a receive or a read of an endpoint, which shares its ownership until it has ended: whoever owns it also
/// keeps the memory that it uses. Its functions are called by Endpoint::progress().
class Operation {
 public:
  enum class Kind : std::uint8_t { kSend, kReceive, kRead };

  explicit Operation(Kind kind) noexcept : kind_(kind) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// It has ended well. `length`: the bytes received; of other operations without meaning.
  virtual void on_done(std::size_t length) noexcept = 0;

 private:
  friend class Endpoint;
  fi_context2 room_{};  // for the provider, which names the operation by its address
  const Kind kind_;
};

/// The first operation of an endpoint that failed. The endpoint can't be used any more.
struct Failure {
  Operation::Kind kind;
  int error;  ///< One of libfabric's.
};

class Endpoint;
/// Closes an endpoint. In a forked child it does nothing.
struct CloseEndpoint {
  void operator()(Endpoint* endpoint) const noexcept;
};
using EndpointPtr = std::unique_ptr<Endpoint, CloseEndpoint>;

/// An endpoint of libfabric with one peer. Use it from one thread at a time. Closing it ends all operations, of which
/// nothing is told. Close the connection to the peer first: closing then waits up to 0.2 s for the peer.
///
/// libfabric 1.17.0 uses freed memory where an endpoint is closed while it is receiving the bytes of a read, as which
/// bodies come too; later versions may write them when another endpoint makes progress. So an endpoint that still
/// receives goes, with its operations and their memory, to the process's undrained endpoints. These make progress,
/// without waiting, when an endpoint is made or closed, and each is destroyed once it receives nothing: its failure
/// isn't enough, since the provider may tell of one operation and still write for another. The owners of its operations
/// are released then, on the thread that makes or closes the other endpoint.
class Endpoint {
 public:
  static constexpr std::size_t kMaxParts = 4;  ///< Of a message: the limit of ofi_rxm.

  /// Throws ResourceError, SystemError.
  static EndpointPtr make(std::shared_ptr<const FabricDomain> domain);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const FabricDomain& domain() const noexcept { return *domain_; }
  const std::shared_ptr<const FabricDomain>& shared_domain() const noexcept { return domain_; }
  /// The port that the peer needs.
  std::uint16_t port() const;
  /// Sets the peer's endpoint, before anything is sent or read. Throws SystemError.
  void set_peer(const SocketAddress& address);

  // The next three begin an operation. They return false if there is no room for it: try again after progress(). They
  // throw ConnectionError, SystemError.
  /// Sends `parts`, at most kMaxParts, in place. It is done when the peer has received the message.
  bool send(std::span<const iovec> parts, std::uint64_t tag, std::shared_ptr<Operation> operation);
  /// Receives the message with this tag.
  bool receive(void* to, std::size_t size, std::uint64_t tag, std::shared_ptr<Operation> operation);
  /// Reads the peer's memory.
  bool read(void* to, std::size_t size, std::uint64_t address, std::uint64_t key, std::shared_ptr<Operation> operation);

  /// Waits for the peer's opening message, which has this tag. Called once.
  void await_opening(std::uint64_t tag);
  bool received_opening() const noexcept { return its_opening_.done; }
  /// Sends the opening message, which the peer awaits with this tag, unless it was sent. Returns false if the endpoints
  /// aren't connected yet: try again after progress(). Throws likewise.
  bool send_opening(std::uint64_t tag);
  /// Whether both openings have arrived.
  bool opened() const noexcept { return its_opening_.done && own_opening_.done; }

  /// Makes progress, and tells operations that they have ended, a bounded number. Returns how many. Throws SystemError.
  std::size_t progress();
  const std::optional<Failure>& failure() const noexcept { return failure_; }
  /// Returns whether descriptor() will be readable when progress() has something to do. False: call it now.
  bool may_sleep() const;
  int descriptor() const noexcept { return descriptor_; }

 private:
  /// The first message between two endpoints. Its content has no meaning.
  struct Opening final : Operation {
    using Operation::Operation;
    void on_done(std::size_t) noexcept override { done = true; }
    bool begun = false;
    bool done = false;
    std::uint64_t bytes = 0;
  };

  friend struct CloseEndpoint;
  friend struct UndrainedEndpoints;

  explicit Endpoint(std::shared_ptr<const FabricDomain> domain);
  void keep_connections();
  template <typename F>
  bool begin(std::shared_ptr<Operation> operation, const char* doing, F post);
  std::shared_ptr<Operation> take(const void* room);
  bool drained() const noexcept { return receiving_ == 0 || domain_->progresses_by_itself(); }
  void drain() noexcept;
  static void destroy(Endpoint* endpoint) noexcept;
  SocketAddress address() const;

  const ForkGuard fork_;
  const std::shared_ptr<const FabricDomain> domain_;
  Opening its_opening_{Operation::Kind::kReceive};
  Opening own_opening_{Operation::Kind::kSend};
  // Before the endpoint, so that it is destroyed after it: until then, the provider may use an operation and its
  // memory.
  // By Operation::room_, which the provider may name once more when the operation is gone: after it has failed.
  std::map<const void*, std::shared_ptr<Operation>> under_way_;
  // In this order: an endpoint is closed before what it is bound to.
  Owned<fid_av> peers_;
  Owned<fid_cq> completions_;
  Owned<fid_ep> endpoint_;
  int descriptor_ = -1;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::optional<Failure> failure_;
  std::size_t receiving_ = 0;      // of those under way: receives and reads, the opening message aside
  bool closing_ = false;           // its receives were cancelled
  Endpoint* undrained_ = nullptr;  // the next undrained endpoint
};

/// Returns the number of the process's undrained endpoints. Thread-safe.
std::size_t undrained_endpoints();

}  // namespace crossdock::transport::fabric
