#include "endpoint.h"

#include <poll.h>

#include <array>
#include <chrono>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::transport::fabric {
namespace {

constexpr std::size_t kCompletions = 256;  // room in the queue, to begin with
constexpr std::size_t kCompletionsPerTurn = 64;
/// For a peer that is there to learn that this end closes, and to close its own.
constexpr std::chrono::milliseconds kDrainTime{200};

}  // namespace

Endpoint::Endpoint(std::shared_ptr<const FabricDomain> domain) : domain_(std::move(domain)) {
  const FabricLibrary& library = domain_->library();
  fi_av_attr peers_wanted{};
  peers_wanted.type = FI_AV_TABLE;
  peers_wanted.count = 1;
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
}

Endpoint::~Endpoint() {
  const bool receiving = receiving_ > 0 && !failure_ && !domain_->progresses_by_itself();
  if (!fork_.in_child() && !receiving) return;
  // Everything that it uses stays, and so does the domain.
  [[maybe_unused]] const auto* const endpoint = endpoint_.release();
  [[maybe_unused]] const auto* const completions = completions_.release();
  [[maybe_unused]] const auto* const peers = peers_.release();
  [[maybe_unused]] const auto* const domain = new std::shared_ptr<const FabricDomain>(domain_);
}

void Endpoint::drain() {
  const auto deadline = std::chrono::steady_clock::now() + kDrainTime;
  while (receiving_ > 0 && !failure_) {
    if (progress() > 0 || !may_sleep()) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return;
    pollfd ask{descriptor_, POLLIN, 0};
    ::poll(&ask, 1, static_cast<int>(left.count()));
  }
}

std::uint16_t Endpoint::port() const {
  SocketAddress own;
  std::size_t size = sizeof own.storage;
  domain_->library().check(fi_getname(&endpoint_->fid, &own.storage, &size), "asking for an endpoint's address");
  if (own.storage.ss_family != AF_INET && own.storage.ss_family != AF_INET6) {
    throw UnsupportedError("fabric: the addresses of this provider aren't those of IP; use \"tcp;ofi_rxm\"");
  }
  return port_of(own);
}

void Endpoint::set_peer(const SocketAddress& address) {
  if (fi_av_insert(peers_.get(), address.get(), 1, &peer_, 0, nullptr) != 1) {
    throw SystemError("fabric: the address of the peer's endpoint, " + host_of(address) + " port " +
                      std::to_string(port_of(address)) + ", was refused");
  }
}

/// Returns whether an operation was begun.
bool Endpoint::begun(long result, const char* doing, Operation::Kind kind) {
  if (result == -FI_EAGAIN) return false;
  domain_->library().check(result, doing);
  if (kind != Operation::Kind::kSend) ++receiving_;
  return true;
}

bool Endpoint::send(std::span<const iovec> parts, std::uint64_t tag, Operation& operation) {
  return begun(fi_tsendv(endpoint_.get(), parts.data(), nullptr, parts.size(), peer_, tag, &operation.room_),
               "sending a body", Operation::Kind::kSend);
}

bool Endpoint::receive(void* to, std::size_t size, std::uint64_t tag, Operation& operation) {
  return begun(fi_trecv(endpoint_.get(), to, size, nullptr, FI_ADDR_UNSPEC, tag, 0, &operation.room_),
               "receiving a body", Operation::Kind::kReceive);
}

bool Endpoint::read(void* to, std::size_t size, std::uint64_t address, std::uint64_t key, Operation& operation) {
  return begun(fi_read(endpoint_.get(), to, size, nullptr, peer_, address, key, &operation.room_),
               "reading the peer's memory", Operation::Kind::kRead);
}

void Endpoint::await_opening(std::uint64_t tag) {
  if (!receive(&its_opening_.bytes, sizeof its_opening_.bytes, tag, its_opening_)) {
    throw ResourceError("fabric: a new endpoint has no room for a receive");
  }
  receiving_ = 0;  // too short to come as a read
}

bool Endpoint::send_opening(std::uint64_t tag) {
  if (own_opening_.begun) return true;
  const iovec part{&own_opening_.bytes, sizeof own_opening_.bytes};
  own_opening_.begun = send({&part, 1}, tag, own_opening_);
  return own_opening_.begun;
}

std::size_t Endpoint::progress() {
  const auto operation_of = [](void* context) { return static_cast<Operation::Room*>(context)->operation; };
  std::array<fi_cq_tagged_entry, 16> entries;
  std::size_t n = 0;
  while (n < kCompletionsPerTurn) {
    const ssize_t got = fi_cq_read(completions_.get(), entries.data(), entries.size());
    if (got == -FI_EAGAIN || got == 0) break;
    if (got > 0) {
      for (ssize_t i = 0; i < got; ++i) {
        const fi_cq_tagged_entry& entry = entries[static_cast<std::size_t>(i)];
        if (entry.op_context == nullptr) continue;
        Operation& ended = *operation_of(entry.op_context);
        if (ended.kind_ != Operation::Kind::kSend && &ended != &its_opening_) --receiving_;
        ended.on_done(entry.len);
      }
      n += static_cast<std::size_t>(got);
      continue;
    }
    domain_->library().check(got == -FI_EAVAIL ? 0 : got, "looking for completions");
    fi_cq_err_entry failed{};
    const ssize_t told = fi_cq_readerr(completions_.get(), &failed, 0);
    if (told == -FI_EAGAIN) break;
    domain_->library().check(told, "looking for an error");
    if (failed.op_context != nullptr && !failure_) {
      failure_ = Failure{operation_of(failed.op_context)->kind_, failed.err};
    }
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
