// Bodies over libfabric, one end of it. The server prints a line of JSON, its address, and serves one client; the
// client prints what a body cost it, in nanoseconds from the end of one to the end of the next.
//   --role serve | consume
//   --way ours | raw         our Connections; or libfabric alone, with a socket to exchange addresses
//   --what message | read    bodies that are sent, or memory that the client reads
//   --provider NAME          tcp;ofi_rxm as without it
//   --host ADDRESS           to listen at; --address HOST:PORT to connect to
//   --body-bytes N --sets N  bodies, each from memory of its own in turns
//   --parts N                of each body that is sent: 8 apart from each other, as of a batch of 8 columns on the
//   heap;
//                            1, as of a published table. A message of libfabric takes four.
//   --batches N --warm-up N
//   --wait spin | block | auto
// Both ways have four bodies under way that are sent, or two that are read, and receive into memory that is used again
// and again.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <span>

#include "arguments.h"
#include "body_memory.h"
#include "core/unique_fd.h"
#include "device/region.h"
#include "raw_socket.h"
#include "transport/fabric.h"

namespace crossdock::bench {
namespace {

constexpr std::size_t kAtOnce = 2;      // bodies under way that are read
constexpr std::size_t kSentAtOnce = 4;  // and that are sent: as many as ours has
constexpr std::size_t kGather = 4;      // parts that a message takes
constexpr std::size_t kWindow = 128;    // messages, as a session has them on their way

std::string provider_of(const Arguments& arguments) { return arguments.text("provider", "tcp;ofi_rxm"); }

transport::FabricOptions options_of(const Arguments& arguments) {
  transport::FabricOptions options;
  options.provider = provider_of(arguments);
  return options;
}

void print_cpu(std::int64_t start, const Plan& plan) {
  std::printf("{\"cpu\":%.1f}\n",
              static_cast<double>(cpu_ns() - start) / static_cast<double>(plan.warm_up + plan.batches));
}

// --- ours ---

void serve_ours(const Arguments& arguments, const Plan& plan) {
  const auto listener =
      transport::fabric_listen("//" + arguments.text("host", "127.0.0.1"), 0, 0, options_of(arguments), nullptr);
  std::printf("{\"address\":\"%s\"}\n", listener->uri().substr(9).c_str());
  std::fflush(stdout);
  std::unique_ptr<transport::Connection> connection;
  while (!(connection = listener->accept())) {
    pollfd ask{listener->descriptor(), POLLIN, 0};
    ::poll(&ask, 1, -1);
  }
  const bool reads = arguments.text("what", "message") == "read";
  const std::vector<Memory> memory = make_bodies(plan);
  const std::vector<std::byte> metadata(kMetadata);
  std::int64_t start_cpu = cpu_ns();
  try {
    if (reads) {
      for (std::size_t i = 0; i < plan.sets; ++i) {
        device::RegionWriter writer("bench");
        writer.append({memory[i].get(), plan.body_bytes});
        connection->announce(static_cast<std::uint16_t>(i), writer.freeze());
      }
      connection->send(metadata, {});
      start_cpu = cpu_ns();
    }
    bool metadata_sent = false;
    for (std::int64_t sent = 0;;) {
      const std::size_t set = static_cast<std::size_t>(sent) % plan.sets;
      if (!reads && sent < plan.warm_up + plan.batches && connection->below_window(kWindow)) {
        if (!metadata_sent) {
          connection->cork();  // as a session does
          metadata_sent = connection->send(metadata, {});
        }
        if (metadata_sent &&
            connection->send_body(static_cast<std::uint64_t>(sent), parts_of(memory[set], plan), nullptr)) {
          metadata_sent = false;
          ++sent;
          continue;
        }
      }
      if (!connection->receive()) transport::wait_readable(*connection, arguments.wait("wait"), 0, nullptr);
    }
  } catch (const ConnectionError&) {
    // The client has what it wants.
  }
  print_cpu(start_cpu, plan);
}

void consume_ours(const Arguments& arguments, const Plan& plan) {
  const auto connection =
      transport::fabric_connect("//" + arguments.text("address"), options_of(arguments), 10'000, nullptr);
  const auto wait = [&] { transport::wait_readable(*connection, arguments.wait("wait"), 0, nullptr); };
  if (arguments.text("what", "message") == "message") {
    transport::Incoming kept;
    measure(plan, [&](std::int64_t i) {
      for (;;) {
        auto message = connection->receive();
        if (!message) {
          wait();
        } else if (message->owner) {
          kept = *std::move(message);
          check_body(kept.bytes, i, plan);
          return;
        }
      }
    });
    return;
  }
  constexpr std::uint64_t kUnused = 64;  // at the beginning of a region
  std::vector<std::uint64_t> bases;
  for (std::size_t i = 0; i < plan.sets; ++i) {
    bases.push_back((std::uint64_t{i} << 48) + kUnused);
  }
  while (!connection->receive()) wait();  // its announcements came before
  std::vector<std::shared_ptr<std::byte>> memory;
  for (std::size_t i = 0; i <= kAtOnce; ++i) memory.emplace_back(make_memory(plan.body_bytes, 0).release(), std::free);
  std::deque<std::unique_ptr<transport::Reading>> under_way;
  std::int64_t begun = 0;
  measure(plan, [&](std::int64_t i) {
    for (; begun < plan.warm_up + plan.batches && under_way.size() < kAtOnce; ++begun) {
      const auto& to = memory[static_cast<std::size_t>(begun) % memory.size()];
      std::vector<transport::ReadPart> parts;
      for (std::size_t part = 0; part < plan.parts; ++part) {
        const std::size_t at = plan.body_bytes * part / plan.parts;
        parts.push_back({bases[static_cast<std::size_t>(begun) % plan.sets] + at,
                         plan.body_bytes * (part + 1) / plan.parts - at, to.get() + at});
      }
      under_way.push_back(connection->read(parts, to));
    }
    while (!under_way.front()->done()) wait(), connection->receive();
    under_way.pop_front();
    check_body({memory[static_cast<std::size_t>(i) % memory.size()].get(), plan.body_bytes}, i, plan);
  });
}

// --- libfabric alone ---

void check(long result, const char* what) {
  if (result < 0) throw SystemError(std::string(what) + ": " + fi_strerror(static_cast<int>(-result)));
}

/// An endpoint with one peer.
class Bare {
 public:
  Bare(const Arguments& arguments, const sockaddr_in& host)
      : spins_(arguments.wait("wait") == transport::WaitMode::kSpin) {
    fi_info* const hints = fi_allocinfo();
    hints->caps = FI_TAGGED | FI_SEND | FI_RECV | FI_RMA | FI_READ | FI_REMOTE_READ;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup(provider_of(arguments).c_str());
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->src_addr = std::malloc(sizeof host);
    std::memcpy(hints->src_addr, &host, sizeof host);
    hints->src_addrlen = sizeof host;
    check(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info_), "fi_getinfo");
    fi_freeinfo(hints);
    check(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
    check(fi_domain(fabric_, info_, &domain_, nullptr), "fi_domain");
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_TAGGED;
    queue.wait_obj = FI_WAIT_FD;
    check(fi_cq_open(domain_, &queue, &queue_, nullptr), "fi_cq_open");
    fi_av_attr peers{};
    check(fi_av_open(domain_, &peers, &peers_, nullptr), "fi_av_open");
    check(fi_endpoint(domain_, info_, &endpoint_, nullptr), "fi_endpoint");
    check(fi_ep_bind(endpoint_, &queue_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    check(fi_ep_bind(endpoint_, &peers_->fid, 0), "fi_ep_bind");
    check(fi_enable(endpoint_), "fi_enable");
    check(fi_control(&queue_->fid, FI_GETWAIT, &descriptor_), "FI_GETWAIT");
  }
  // The end of the process closes it.

  /// Exchanges addresses with the peer over a socket.
  void meet(int socket) {
    sockaddr_storage address{};
    std::size_t size = sizeof address;
    check(fi_getname(&endpoint_->fid, &address, &size), "fi_getname");
    sockaddr_storage its{};
    if (::send(socket, &address, sizeof address, 0) != sizeof address ||
        ::recv(socket, &its, sizeof its, MSG_WAITALL) != sizeof its) {
      throw_errno(errno, "exchanging addresses");
    }
    if (fi_av_insert(peers_, &its, 1, &peer_, 0, nullptr) != 1) throw SystemError("fi_av_insert");
  }
  /// Calls `begin`, which begins an operation, until there is room.
  template <typename F>
  void begin(F begin) {
    long result = 0;
    while ((result = begin()) == -FI_EAGAIN) progress();
    check(result, "beginning an operation");
  }
  void send(std::span<const ByteSpan> parts, std::uint64_t tag) {
    std::array<iovec, kGather> vector{};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      vector.at(i) = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
    }
    begin([&] { return fi_tsendv(endpoint_, vector.data(), nullptr, parts.size(), peer_, tag, nullptr); });
  }
  void receive(std::byte* to, std::size_t bytes, std::uint64_t tag) {
    begin([&] { return fi_trecv(endpoint_, to, bytes, nullptr, FI_ADDR_UNSPEC, tag, 0, nullptr); });
  }
  void read(const Memory& to, std::size_t bytes, const std::array<std::uint64_t, 2>& key) {
    begin([&] { return fi_read(endpoint_, to.get(), bytes, nullptr, peer_, key[1], key[0], nullptr); });
  }
  /// Registers memory for reads. Returns its key and address.
  std::array<std::uint64_t, 2> offer(const Memory& memory, std::size_t bytes, std::uint64_t key) {
    fid_mr* region = nullptr;
    check(fi_mr_reg(domain_, memory.get(), bytes, FI_REMOTE_READ, 0, key, 0, &region, nullptr), "fi_mr_reg");
    const bool real = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    return {fi_mr_key(region), real ? reinterpret_cast<std::uintptr_t>(memory.get()) : 0};
  }
  /// Waits for the end of an operation. Returns false if `socket` becomes readable first; -1: none.
  bool wait_one(int socket = -1) {
    for (;;) {
      if (done_ > 0 || progress()) {
        --done_;
        return true;
      }
      if (spins_) {
        pollfd ask{socket, POLLIN, 0};
        if (socket >= 0 && ::poll(&ask, 1, 0) > 0) return false;
        continue;
      }
      fid* queues[] = {&queue_->fid};
      if (fi_trywait(fabric_, queues, 1) != 0) continue;
      std::array<pollfd, 2> ask = {pollfd{descriptor_, POLLIN, 0}, pollfd{socket, POLLIN, 0}};
      ::poll(ask.data(), socket >= 0 ? 2 : 1, -1);
      if (ask[1].revents != 0 && socket >= 0) return false;
    }
  }

 private:
  bool progress() {
    std::array<fi_cq_tagged_entry, 8> entries;
    const ssize_t got = fi_cq_read(queue_, entries.data(), entries.size());
    if (got == -FI_EAGAIN) return false;
    check(got, "fi_cq_read");
    done_ += static_cast<std::size_t>(got);
    return got > 0;
  }

  const bool spins_;
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* queue_ = nullptr;
  fid_av* peers_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  int descriptor_ = -1;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::size_t done_ = 0;
};

sockaddr_in own_host(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) throw_errno(errno, "getsockname");
  address.sin_port = 0;
  return address;
}

std::size_t messages_of(const Plan& plan) { return (plan.parts + kGather - 1) / kGather; }

void serve_raw(const Arguments& arguments, const Plan& plan) {
  const UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = address_of(arguments.text("host", "127.0.0.1"), 0);
  socklen_t size = sizeof address;
  if (::bind(listening.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listening.get(), 1) != 0 ||
      ::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw_errno(errno, "listening");
  }
  std::printf("{\"address\":\"%s:%d\"}\n", arguments.text("host", "127.0.0.1").c_str(), ntohs(address.sin_port));
  std::fflush(stdout);
  const UniqueFd socket(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  Bare bare(arguments, own_host(socket.get()));
  bare.meet(socket.get());
  const std::vector<Memory> memory = make_bodies(plan);
  const std::int64_t start_cpu = cpu_ns();
  if (arguments.text("what", "message") == "read") {
    for (std::size_t i = 0; i < plan.sets; ++i) {
      const auto key = bare.offer(memory[i], plan.body_bytes, i + 1);
      if (::send(socket.get(), key.data(), sizeof key, 0) != sizeof key) throw_errno(errno, "sending a key");
    }
  } else {
    const std::size_t messages = messages_of(plan);
    std::int64_t under_way = 0;
    for (std::int64_t sent = 0; sent < plan.warm_up + plan.batches; ++sent) {
      const std::vector<ByteSpan> parts = parts_of(memory[static_cast<std::size_t>(sent) % plan.sets], plan);
      for (std::size_t k = 0; k < messages; ++k) {
        const auto of_message =
            std::span(parts).subspan(k * kGather).first(std::min(kGather, plan.parts - k * kGather));
        bare.send(of_message, static_cast<std::uint64_t>(sent) * messages + k);
      }
      if (++under_way < static_cast<std::int64_t>(kSentAtOnce)) continue;
      for (std::size_t k = 0; k < messages; ++k) bare.wait_one();
      --under_way;
    }
  }
  while (bare.wait_one(socket.get())) {
  }
  print_cpu(start_cpu, plan);
}

void consume_raw(const Arguments& arguments, const Plan& plan) {
  const std::string text = arguments.text("address");
  const std::size_t colon = text.rfind(':');
  const sockaddr_in address = address_of(text.substr(0, colon), std::stoi(text.substr(colon + 1)));
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw_errno(errno, "connecting to " + text);
  }
  Bare bare(arguments, own_host(socket.get()));
  bare.meet(socket.get());
  const bool reads = arguments.text("what", "message") == "read";
  std::vector<std::array<std::uint64_t, 2>> keys(reads ? plan.sets : 0);
  for (auto& key : keys) {
    if (::recv(socket.get(), key.data(), sizeof key, MSG_WAITALL) != sizeof key) throw_errno(errno, "getting a key");
  }
  const std::size_t at_once = reads ? kAtOnce : kSentAtOnce;
  const std::size_t messages = reads ? 1 : messages_of(plan);
  std::vector<Memory> memory;
  for (std::size_t i = 0; i <= at_once; ++i) memory.push_back(make_memory(plan.body_bytes, 0));
  std::int64_t begun = 0;
  measure(plan, [&](std::int64_t i) {
    for (; begun < plan.warm_up + plan.batches && begun < i + static_cast<std::int64_t>(at_once); ++begun) {
      const Memory& to = memory[static_cast<std::size_t>(begun) % memory.size()];
      if (reads) {
        bare.read(to, plan.body_bytes, keys[static_cast<std::size_t>(begun) % plan.sets]);
        continue;
      }
      for (std::size_t k = 0; k < messages; ++k) {
        const std::size_t at = plan.body_bytes * (k * kGather) / plan.parts;
        const std::size_t end = plan.body_bytes * std::min((k + 1) * kGather, plan.parts) / plan.parts;
        bare.receive(to.get() + at, end - at, static_cast<std::uint64_t>(begun) * messages + k);
      }
    }
    for (std::size_t k = 0; k < messages; ++k) bare.wait_one();
    check_body({memory[static_cast<std::size_t>(i) % memory.size()].get(), plan.body_bytes}, i, plan);
  });
}

void transfer(const Arguments& arguments) {
  const Plan plan(arguments);
  const std::string role = arguments.text("role");
  const std::string way = arguments.text("way");
  const std::string what = arguments.text("what", "message");
  if ((role != "serve" && role != "consume") || (way != "ours" && way != "raw") ||
      (what != "message" && what != "read")) {
    throw InvalidArgumentError("--role is serve or consume, --way is ours or raw, --what is message or read");
  }
  const bool serves = role == "serve";
  if (way == "ours") {
    serves ? serve_ours(arguments, plan) : consume_ours(arguments, plan);
  } else {
    serves ? serve_raw(arguments, plan) : consume_raw(arguments, plan);
  }
}

}  // namespace
}  // namespace crossdock::bench

int main(int argc, char** argv) {
  return crossdock::bench::run(argc, argv,
                               {"role", "way", "what", "provider", "host", "address", "body-bytes", "sets", "parts",
                                "batches", "warm-up", "wait"},
                               crossdock::bench::transfer);
}
