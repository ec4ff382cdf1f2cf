#include "endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <string_view>
#include <utility>

#include "accepted_sockets.h"
#include "crossdock/core/error.h"

namespace crossdock::transport::fabric {
namespace {

constexpr std::size_t kCompletions = 256;  // room in the queue, to begin with
constexpr std::size_t kCompletionsPerTurn = 64;
/// For a peer that is there to learn that this end closes, and to close its own.
constexpr std::chrono::milliseconds kDrainTime{200};

/// Returns an address of the family of `like` to which connect() fails at once: a multicast address.
SocketAddress unreachable(const sockaddr& like) noexcept {
  constexpr std::uint16_t kDiscard = 9;  // providers take no port 0
  SocketAddress out;
  if (like.sa_family == AF_INET6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(out.storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(kDiscard);
    v6.sin6_addr.s6_addr[0] = 0xFF;  // ff02::1
    v6.sin6_addr.s6_addr[1] = 0x02;
    v6.sin6_addr.s6_addr[15] = 0x01;
    out.size = sizeof v6;
    return out;
  }
  auto& v4 = reinterpret_cast<sockaddr_in&>(out.storage);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(kDiscard);
  v4.sin_addr.s_addr = htonl(INADDR_ALLHOSTS_GROUP);
  out.size = sizeof v4;
  return out;
}

}  // namespace

/// The endpoints of this process that are closed and still receive. Never destroyed. Whoever makes progress with them
/// takes them out meanwhile, so the lock is held across no call of libfabric and no owner's destructor. A forked child
/// leaves them alone.
struct UndrainedEndpoints {
  static UndrainedEndpoints& all() {
    static auto* const only = new UndrainedEndpoints;
    return *only;
  }

  void put(Endpoint* endpoint) noexcept {
    const std::lock_guard lock(mutex);
    endpoint->undrained_ = std::exchange(first, endpoint);
  }

  /// Makes progress, without waiting, and destroys those that are drained.
  void progress() noexcept {
    if (fork.in_child()) return;
    Endpoint* taken = nullptr;
    {
      const std::lock_guard lock(mutex);
      taken = std::exchange(first, nullptr);
    }
    while (taken != nullptr) {
      Endpoint* const endpoint = std::exchange(taken, taken->undrained_);
      try {
        endpoint->progress();
      } catch (const std::exception&) {
        // It can't be told what it does with its memory: it stays.
      }
      if (!endpoint->drained()) {
        put(endpoint);
        continue;
      }
      Endpoint::destroy(endpoint);
      count.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  const ForkGuard fork;
  std::mutex mutex;
  Endpoint* first = nullptr;
  std::atomic<std::size_t> count{0};
};

std::size_t undrained_endpoints() { return UndrainedEndpoints::all().count.load(std::memory_order_relaxed); }

void CloseEndpoint::operator()(Endpoint* endpoint) const noexcept {
  UndrainedEndpoints& undrained = UndrainedEndpoints::all();
  if (endpoint->fork_.in_child() || undrained.fork.in_child()) return;  // what is in it is the parent's
  undrained.progress();
  endpoint->drain();
  if (endpoint->drained()) {
    Endpoint::destroy(endpoint);
    return;
  }
  undrained.count.fetch_add(1, std::memory_order_relaxed);
  undrained.put(endpoint);
}

EndpointPtr Endpoint::make(std::shared_ptr<const FabricDomain> domain) {
  UndrainedEndpoints::all().progress();
  return EndpointPtr(new Endpoint(std::move(domain)));
}

Endpoint::Endpoint(std::shared_ptr<const FabricDomain> domain) : domain_(std::move(domain)) {
  const FabricLibrary& library = domain_->library();
  fi_av_attr peers_wanted{};
  peers_wanted.type = FI_AV_TABLE;
  peers_wanted.count = 2;  // the peer, and keep_connections()'s
  fid_av* peers = nullptr;
  library.check(fi_av_open(domain_->get(), &peers_wanted, &peers, nullptr), "making a table of addresses");
  peers_.reset(peers);

  fi_cq_attr completions_wanted{};
  completions_wanted.size = kCompletions;
  completions_wanted.format = FI_CQ_FORMAT_TAGGED;
  completions_wanted.wait_obj = FI_WAIT_FD;
  fid_cq* completions = nullptr;
  library.check(fi_cq_open(domain_->get(), &completions_wanted, &completions, nullptr),
                "making a queue of completions with a descriptor");
  completions_.reset(completions);
  library.check(fi_control(&completions->fid, FI_GETWAIT, &descriptor_), "asking for a descriptor");

  fid_ep* endpoint = nullptr;
  library.check(fi_endpoint(domain_->get(), domain_->info(), &endpoint, nullptr), "opening an endpoint");
  endpoint_.reset(endpoint);
  library.check(fi_ep_bind(endpoint, &completions->fid, FI_TRANSMIT | FI_RECV), "setting up an endpoint");
  library.check(fi_ep_bind(endpoint, &peers->fid, 0), "setting up an endpoint");
  library.check(fi_enable(endpoint), "starting an endpoint");
  keep_connections();
}

/// Has ofi_rxm keep its table of connections as long as the endpoint lives.
///
/// The first packet of a long message tells ofi_rxm to fetch the rest from the sender, whose connection it looks up in
/// a table when the receive is posted, if the packet is there by then. Versions from 1.17.0 to 2.0.0 free that table
/// with the last connection, and follow a null pointer then. While the table is there, they find no connection, and
/// fi_trecv() fails. An entry for an address that can't be connected to stays in the table.
void Endpoint::keep_connections() {
  const fi_info& info = *domain_->info();
  if (std::string_view(info.fabric_attr->prov_name).find("ofi_rxm") == std::string_view::npos) return;
  const auto* const own = static_cast<const sockaddr*>(info.src_addr);
  if (own == nullptr || (own->sa_family != AF_INET && own->sa_family != AF_INET6)) return;
  const SocketAddress nobody = unreachable(*own);
  fi_addr_t to = FI_ADDR_UNSPEC;
  if (fi_av_insert(peers_.get(), nobody.get(), 1, &to, 0, nullptr) != 1) return;
  // It fails before anything of the message is looked at; were it sent, it would be no operation of ours.
  fi_tinject(endpoint_.get(), nullptr, 0, to, 0);
}

/// Cancels the receives, and makes progress until the endpoint may be closed, or some time is over.
void Endpoint::drain() noexcept {
  closing_ = true;
  // Those that no message has come for end at once.
  for (const auto& [room, operation] : under_way_) {
    if (operation->kind_ == Operation::Kind::kReceive) fi_cancel(&endpoint_->fid, &operation->room_);
  }
  const auto deadline = std::chrono::steady_clock::now() + kDrainTime;
  try {
    while (!drained()) {
      if (progress() > 0) continue;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return;
      pollfd ask{descriptor_, POLLIN, 0};
      if (may_sleep()) ::poll(&ask, 1, static_cast<int>(left.count()));
    }
  } catch (const std::exception&) {
    // Without progress there is nothing to wait for.
  }
}

/// Destroys an endpoint, and closes the sockets that libfabric leaves open.
void Endpoint::destroy(Endpoint* endpoint) noexcept {
  std::optional<AcceptedSockets> accepted;
  try {
    // Later versions may close them by themselves, and later.
    if (endpoint->domain_->library().version() == "1.17") accepted.emplace(endpoint->address());
  } catch (const std::exception&) {
    // Without memory, or without a port, they stay.
  }
  delete endpoint;
  if (accepted) accepted->close_left();
}

std::uint16_t Endpoint::port() const { return port_of(address()); }

SocketAddress Endpoint::address() const {
  SocketAddress own;
  std::size_t size = sizeof own.storage;
  domain_->library().check(fi_getname(&endpoint_->fid, &own.storage, &size), "asking for an endpoint's address");
  own.size = static_cast<socklen_t>(size);
  if (own.storage.ss_family != AF_INET && own.storage.ss_family != AF_INET6) {
    throw UnsupportedError("fabric: the addresses of this provider aren't those of IP; use \"tcp;ofi_rxm\"");
  }
  return own;
}

void Endpoint::set_peer(const SocketAddress& address) {
  if (fi_av_insert(peers_.get(), address.get(), 1, &peer_, 0, nullptr) != 1) {
    throw SystemError("fabric: the address of the peer's endpoint, " + host_of(address) + " port " +
                      std::to_string(port_of(address)) + ", was refused");
  }
}

/// Returns whether the operation was begun, by `post`.
template <typename F>
bool Endpoint::begin(std::shared_ptr<Operation> operation, const char* doing, F post) {
  const bool sends = operation->kind_ == Operation::Kind::kSend;
  const void* const room = &operation->room_;
  under_way_.emplace(room, std::move(operation));
  const ssize_t result = post();
  if (result < 0) under_way_.erase(room);
  if (result == -FI_EAGAIN) return false;
  domain_->library().check(result, doing);
  if (!sends) ++receiving_;
  return true;
}

bool Endpoint::send(std::span<const iovec> parts, std::uint64_t tag, std::shared_ptr<Operation> operation) {
  void* const room = &operation->room_;
  return begin(std::move(operation), "sending a body",
               [&] { return fi_tsendv(endpoint_.get(), parts.data(), nullptr, parts.size(), peer_, tag, room); });
}

bool Endpoint::receive(void* to, std::size_t size, std::uint64_t tag, std::shared_ptr<Operation> operation) {
  void* const room = &operation->room_;
  return begin(std::move(operation), "receiving a body",
               [&] { return fi_trecv(endpoint_.get(), to, size, nullptr, FI_ADDR_UNSPEC, tag, 0, room); });
}

bool Endpoint::read(void* to, std::size_t size, std::uint64_t address, std::uint64_t key,
                    std::shared_ptr<Operation> operation) {
  void* const room = &operation->room_;
  return begin(std::move(operation), "reading the peer's memory",
               [&] { return fi_read(endpoint_.get(), to, size, nullptr, peer_, address, key, room); });
}

/// Takes the operation that has ended out of those under way.
std::shared_ptr<Operation> Endpoint::take(const void* room) {
  const auto found = under_way_.find(room);
  if (found == under_way_.end()) return nullptr;
  std::shared_ptr<Operation> ended = std::move(found->second);
  under_way_.erase(found);
  if (ended->kind_ != Operation::Kind::kSend && ended.get() != &its_opening_) --receiving_;
  return ended;
}

void Endpoint::await_opening(std::uint64_t tag) {
  if (!receive(&its_opening_.bytes, sizeof its_opening_.bytes, tag, {std::shared_ptr<void>(), &its_opening_})) {
    throw ResourceError("fabric: a new endpoint has no room for a receive");
  }
  receiving_ = 0;  // too short to come as a read
}

bool Endpoint::send_opening(std::uint64_t tag) {
  if (own_opening_.begun) return true;
  const iovec part{&own_opening_.bytes, sizeof own_opening_.bytes};
  own_opening_.begun = send({&part, 1}, tag, {std::shared_ptr<void>(), &own_opening_});
  return own_opening_.begun;
}

std::size_t Endpoint::progress() {
  std::array<fi_cq_tagged_entry, 16> entries;
  std::size_t n = 0;
  while (n < kCompletionsPerTurn) {
    const ssize_t got = fi_cq_read(completions_.get(), entries.data(), entries.size());
    if (got == -FI_EAGAIN || got == 0) break;
    if (got > 0) {
      for (ssize_t i = 0; i < got; ++i) {
        const fi_cq_tagged_entry& entry = entries[static_cast<std::size_t>(i)];
        if (entry.op_context == nullptr) continue;
        if (const auto ended = take(entry.op_context)) ended->on_done(entry.len);
      }
      n += static_cast<std::size_t>(got);
      continue;
    }
    domain_->library().check(got == -FI_EAVAIL ? 0 : got, "looking for completions");
    fi_cq_err_entry failed{};
    const ssize_t told = fi_cq_readerr(completions_.get(), &failed, 0);
    if (told == -FI_EAGAIN) break;
    domain_->library().check(told, "looking for an error");
    const auto ended = failed.op_context != nullptr ? take(failed.op_context) : nullptr;
    const bool cancelled = closing_ && failed.err == FI_ECANCELED;
    if (ended && !cancelled && !failure_) failure_ = Failure{ended->kind_, failed.err};
    ++n;
  }
  return n;
}

bool Endpoint::may_sleep() const {
  fid* const queue = &completions_->fid;
  fid* queues[] = {queue};
  return fi_trywait(domain_->fabric(), queues, 1) == 0;
}

}  // namespace crossdock::transport::fabric
