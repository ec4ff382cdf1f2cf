#include <algorithm>
#include <chrono>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "closing.h"
#include "connect.h"
#include "connection.h"
#include "core/fork.h"
#include "core/host_name.h"
#include "crossdock/core/error.h"
#include "handshake.h"
#include "listener.h"
#include "transport/hosts.h"
#include "transport/internal/handshake_queue.h"
#include "transport/registry.h"
#include "transport/ucx.h"

namespace crossdock::transport {

namespace ucx {
namespace {

constexpr const char* kThisListener = "this ucx listener";
/// What is accepted from a client before its handshake is complete.
constexpr ReceiveLimits kHandshakeLimits = {.max_untagged = 4096,
                                            .max_control = net::kMaxRecord,
                                            .max_tagged = 4096,
                                            .queue_messages = 16,
                                            .queue_bytes = 16 << 10};

/// A region that clients strictly as specified may read, by a URI of its own.
struct Offer {
  std::uint64_t want_data = 0;  ///< Tells that the client has the key.
  std::weak_ptr<const device::Region> region;
};

/// The facts of a server that its handshakes need. Lives as long as these.
struct Terms {
  /// Returns the offer with this tag, or null.
  const Offer* offer(std::uint64_t want_data) const noexcept {
    const auto found = std::ranges::find(offers, want_data, &Offer::want_data);
    return found == offers.end() ? nullptr : &*found;
  }

  UcxOptions options;
  net::Welcome welcome;  ///< Without a proof.
  net::WrongTokens wrong_tokens;
  std::shared_ptr<ClosingEnds> closing;
  std::vector<Offer> offers{};
};

class UcxHandshake final : public PendingHandshake {
 public:
  UcxHandshake(Terms& terms, std::shared_ptr<Worker> worker, std::unique_ptr<Endpoint> endpoint,
               const SocketAddress& peer)
      : PendingHandshake(worker->where()),
        terms_(terms),
        worker_(std::move(worker)),
        endpoint_(std::move(endpoint)),
        handshake_(kNames, terms.options.token, terms.wrong_tokens, peer, where()) {}

  int descriptor() const noexcept override { return worker_->descriptor(); }
  bool prepare_wait() override { return worker_->arm(); }
  State read() override;
  State complete(std::unique_ptr<Connection>* connection) override;
  void send(const Refused& refused) override;

 private:
  void check_request(MessageKind kind, std::uint64_t tag) const;
  State complete_as_specified(std::unique_ptr<Connection>* connection);

  Terms& terms_;
  const std::shared_ptr<Worker> worker_;
  std::unique_ptr<Endpoint> endpoint_;  // null once it was passed on
  net::ServerHandshake handshake_;
  bool greeted_ = false;       // a record has arrived, so the client is Crossdock's
  bool as_specified_ = false;  // the first message was something else than a record
  bool welcomed_ = false;      // the WELCOME was sent
};

PendingHandshake::State UcxHandshake::read() {
  worker_->progress();
  const bool ended = endpoint_->failure().has_value();
  if (welcomed_) return ended ? State::kEnded : worker_->sends() == 0 ? State::kReady : State::kWaiting;
  while (worker_->ready()) {
    if (const auto next = worker_->next(); next && next->first != MessageKind::kControl) {
      if (greeted_) throw ProtocolError("the client sent a message before the end of its handshake");
      as_specified_ = true;
      // The message stays where it is, for the connection's owner.
      check_request(next->first, next->second);
      return State::kReady;
    }
    const std::optional<Received> got = worker_->take();
    greeted_ = true;
    const std::vector<std::byte> answer = handshake_.advance({got->bytes.begin(), got->bytes.end()});
    if (answer.empty()) return State::kReady;
    endpoint_->send_control(answer);
  }
  return ended ? State::kEnded : State::kWaiting;
}

/// Throws unless a client strictly as specified may begin with this message.
void UcxHandshake::check_request(MessageKind kind, std::uint64_t tag) const {
  if (kind != MessageKind::kTagged || (tag != terms_.welcome.want_data && terms_.offer(tag) == nullptr)) {
    throw ProtocolError(std::string(net::kNoHello) + ", nor one strictly as specified, which begins with want_data");
  }
  if (!terms_.options.token.empty()) {
    throw ProtocolError("the client is strictly as specified, and can't prove that it knows the token");
  }
}

PendingHandshake::State UcxHandshake::complete_as_specified(std::unique_ptr<Connection>* connection) {
  const auto request = worker_->next();
  if (!request || endpoint_->failure()) return State::kEnded;
  worker_->limit(limits_as_specified(terms_.options, terms_.welcome.max_message));
  const std::uint64_t want_data = request->second;
  const Offer* const offer = terms_.offer(want_data);
  SpecifiedMemory memory;
  if (offer != nullptr) memory.region = offer->region;
  *connection =
      std::make_unique<UcxConnection>(worker_, std::move(endpoint_),
                                      introduce_as_specified(terms_.options, want_data, terms_.welcome.free_data,
                                                             ChannelRole::kBoth, offer != nullptr, where()),
                                      terms_.options, terms_.closing, std::move(memory));
  return State::kConnected;
}

PendingHandshake::State UcxHandshake::complete(std::unique_ptr<Connection>* connection) {
  if (as_specified_) return complete_as_specified(connection);
  // Without a way that both have, the client ends the connection.
  const ConnectOptions client =
      net::agreed_wishes(handshake_.role(), handshake_.hello().features, terms_.welcome.features);
  if (endpoint_->failure()) return State::kEnded;
  if (!welcomed_) {
    worker_->limit(limits_for(terms_.options, terms_.welcome.max_message));
    endpoint_->send_control(handshake_.accept(terms_.welcome));
    welcomed_ = true;
    // Until UCX has connected the two endpoints, the record waits here, and the connection's owner may not push it.
    if (worker_->sends() > 0) return State::kWaiting;
  }
  Introduction introduction = introduce(terms_.welcome, handshake_.hello(), terms_.welcome, client, where());
  introduction.agreement.authenticated = handshake_.proves();
  introduction.agreement.privileged = introduction.agreement.authenticated;
  *connection =
      std::make_unique<UcxConnection>(worker_, std::move(endpoint_), introduction, terms_.options, terms_.closing);
  return State::kConnected;
}

void UcxHandshake::send(const Refused& refused) {
  // Another client has no handler for this message, and then UCX 1.13 may end its process.
  if (!greeted_) return;
  endpoint_->send_control(net::encode(refused));
  std::unique_ptr<ClosingEnd> end =
      std::make_unique<UcxClosingEnd>(worker_, std::move(endpoint_), UcxClosingEnd::Until::kPeerGone);
  terms_.closing->add(end);
}

class UcxServer final : public Listener {
 public:
  UcxServer(std::shared_ptr<UcxContexts> contexts, const std::string& address, std::uint64_t want_data,
            std::uint64_t free_data, const UcxOptions& options, LogCallback log);
  ~UcxServer() override {
    if (!fork_.in_child()) terms_.closing->stop(poll_);
  }
  UcxServer(const UcxServer&) = delete;
  UcxServer& operator=(const UcxServer&) = delete;

  std::string uri() const override { return uri_; }
  int descriptor() const noexcept override { return poll_.descriptor(); }
  std::unique_ptr<Connection> accept() override;
  SpecifiedServer offer(const std::shared_ptr<const device::Region>& region) override;
  std::size_t handshakes() const noexcept override { return handshakes_.size(); }
  void reject_all(bool on) override { reject_all_ = on; }
  Rejections rejections() const noexcept override { return handshakes_.rejections(); }

 private:
  std::uint64_t new_tag() const;
  void accept_one();
  void await_events();
  void say(LogLevel level, const std::string& text) const {
    if (log_) log_(level, text);
  }

  const ForkGuard fork_;
  const LogCallback log_;
  const std::shared_ptr<UcxContexts> contexts_;
  const std::unique_ptr<UcxListener> listener_;
  const std::string uri_;
  Terms terms_;
  AcceptPoll poll_;
  HandshakeQueue handshakes_;
  bool reject_all_ = false;
  bool closing_news_ = false;  // nobody asks: advance() looks for itself
};

std::string uri_of(const SocketAddress& bound, const UcxOptions& options) {
  if (!is_wildcard(bound)) return to_uri(kScheme, bound);
  return to_uri(kScheme, options.advertised_host.empty() ? host_name() : options.advertised_host, port_of(bound));
}

UcxServer::UcxServer(std::shared_ptr<UcxContexts> contexts, const std::string& address, std::uint64_t want_data,
                     std::uint64_t free_data, const UcxOptions& options, LogCallback log)
    : log_(std::move(log)),
      contexts_(std::move(contexts)),
      listener_(listen_at(*contexts_, address)),
      uri_(uri_of(listener_->address(), options)),
      terms_{.options = options,
             .welcome = {.features = kOwnFeatures | net::kFeatureReads,
                         .max_message = std::min(options.max_message, options.max_request),
                         .max_body = options.max_body,
                         .want_data = want_data,
                         .free_data = free_data},
             .wrong_tokens = net::WrongTokens(log_),
             .closing = std::make_shared<ClosingEnds>()},
      poll_(listener_->descriptor(), listener_->uri()),
      handshakes_(poll_, options.handshake_timeout, log_) {
  const SocketAddress& bound = listener_->address();
  if (is_wildcard(bound)) {
    say(LogLevel::kInfo, "listening at every address of this machine, port " + std::to_string(port_of(bound)));
  }
  if (options.token.empty() && !is_loopback(bound)) say(LogLevel::kWarning, open_address_warning(uri_));
  if (options.remote_reads) {
    say(LogLevel::kWarning,
        uri_ + " allows remote reads: every process that reaches it can read and write all memory of this process");
  }
  poll_.watch(terms_.closing->descriptor(), &closing_news_);
  await_events();
}

SpecifiedServer UcxServer::offer(const std::shared_ptr<const device::Region>& region) {
  fork_.check(kThisListener);
  if (!terms_.options.remote_reads) {
    throw UnsupportedError(uri_ + " lets nobody read memory by a remote_handle: that needs UcxOptions::remote_reads (" +
                           "in Python remote_reads=\"trusted\"), by which every peer can read and write all of it");
  }
  std::erase_if(terms_.offers, [](const Offer& offer) { return offer.region.expired(); });
  auto found = std::ranges::find_if(terms_.offers, [&](const Offer& offer) { return offer.region.lock() == region; });
  const auto memory = registered(contexts_->for_local(listener_->address())->registrations(), region);
  if (found == terms_.offers.end()) {
    found = terms_.offers.insert(found, Offer{.want_data = new_tag(), .region = region});
  }
  return {.want_data = found->want_data,
          .free_data = terms_.welcome.free_data,
          .remote_handle = memory->memory.packed_key()};
}

/// Returns a tag that no URI of this server has.
std::uint64_t UcxServer::new_tag() const {
  std::random_device source;
  for (;;) {
    const std::uint64_t tag = (static_cast<std::uint64_t>(source()) << 32) | source();
    if (tag != terms_.welcome.want_data && tag != terms_.welcome.free_data && terms_.offer(tag) == nullptr) return tag;
  }
}

std::unique_ptr<Connection> UcxServer::accept() {
  fork_.check(kThisListener);
  poll_.look();
  listener_->progress();
  // First, because make_room() must not reject a client whose handshake message has already arrived.
  handshakes_.advance();
  if (!handshakes_.has_work() && !handshakes_.full() && listener_->requests() > 0) {
    accept_one();
    handshakes_.advance();
    handshakes_.make_room();
  }
  terms_.closing->advance(poll_);
  std::unique_ptr<Connection> connection = handshakes_.complete_oldest(reject_all_);
  await_events();
  return connection;
}

/// Makes a worker for a client that waits: 1 ms with UCX 1.13, and 6 ms with 1.22.
void UcxServer::accept_one() {
  const std::size_t waiting = listener_->requests();
  std::string where = "a client of " + uri_;
  try {
    const SocketAddress peer = listener_->client();
    where = to_uri(kScheme, peer);
    auto worker = std::make_shared<Worker>(contexts_->for_local(listener_->address()), kHandshakeLimits, where);
    std::unique_ptr<Endpoint> endpoint = listener_->accept(worker);
    handshakes_.add(std::make_unique<UcxHandshake>(terms_, std::move(worker), std::move(endpoint), peer));
  } catch (const Error& error) {
    say(LogLevel::kWarning, where + " was lost: " + error.what());
    if (listener_->requests() == waiting) listener_->reject();
  }
}

/// Makes descriptor() readable when the next call of accept() has something to do.
void UcxServer::await_events() {
  handshakes_.prepare_wait();
  std::optional<HandshakeQueue::Clock::time_point> deadline = handshakes_.deadline();
  const auto closing = terms_.closing->deadline();
  if (closing) deadline = std::min(deadline.value_or(*closing), *closing);
  poll_.set_deadline(deadline);
  const bool armed = terms_.closing->arm();
  const bool listens = listener_->arm();
  const bool waits = listener_->requests() > 0 && !handshakes_.full();
  poll_.set_more(handshakes_.has_work() || waits || !armed || !listens);
}

class UcxTransport final : public Transport {
 public:
  explicit UcxTransport(const UcxOptions& options) : options_(options) { check_options(options); }
  std::string_view scheme() const noexcept override { return kScheme; }
  Ways ways() const noexcept override { return kWays; }
  bool needs_sealed_files() const noexcept override { return true; }
  bool reaches_specified_peers() const noexcept override { return true; }
  void check_address(const std::string& address) const override {
    static_cast<void>(contexts(&listening_));  // the library is there
    static_cast<void>(parse_address(kScheme, address));
  }
  std::unique_ptr<Listener> listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                   LogCallback log) const override {
    // Clients only send requests and frees: bodies are accepted from no client.
    UcxOptions options = options_;
    options.max_body = 0;
    return std::make_unique<UcxServer>(contexts(&listening_), address, want_data, free_data, options, std::move(log));
  }
  std::unique_ptr<Connection> connect(const std::string& address, const ConnectOptions& wishes, int timeout_ms,
                                      const InterruptHook& interrupted) const override {
    return connect_to(*contexts(&connecting_), address, options_, timeout_ms, interrupted, wishes);
  }

 private:
  /// Opens UCX's library at the first use of the scheme.
  std::shared_ptr<UcxContexts> contexts(std::shared_ptr<UcxContexts>* which) const {
    const std::lock_guard lock(mutex_);
    if (*which == nullptr) {
      *which = std::make_shared<UcxContexts>(which == &connecting_ ? client_options(options_) : options_);
    }
    return *which;
  }

  const UcxOptions options_;
  mutable std::mutex mutex_;
  // Not the same: their limits of time differ.
  mutable std::shared_ptr<UcxContexts> listening_;
  mutable std::shared_ptr<UcxContexts> connecting_;
};

}  // namespace
}  // namespace ucx

std::unique_ptr<Listener> ucx_listen(const std::string& address, std::uint64_t want_data, std::uint64_t free_data,
                                     const UcxOptions& options, LogCallback log) {
  ucx::check_options(options);
  return std::make_unique<ucx::UcxServer>(std::make_shared<ucx::UcxContexts>(options), address, want_data, free_data,
                                          options, std::move(log));
}

std::unique_ptr<Connection> ucx_connect(const std::string& address, const UcxOptions& options, int timeout_ms,
                                        const InterruptHook& interrupted, const ConnectOptions& wishes) {
  ucx::check_options(options);
  ucx::UcxContexts contexts(ucx::client_options(options));
  return ucx::connect_to(contexts, address, options, timeout_ms, interrupted, wishes);
}

std::shared_ptr<const Transport> make_ucx_transport(const UcxOptions& options) {
  return std::make_shared<const ucx::UcxTransport>(options);
}

}  // namespace crossdock::transport
