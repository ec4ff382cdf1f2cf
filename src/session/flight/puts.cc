#include "session/flight/puts.h"

#include <chrono>
#include <utility>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "crossdock/device/arena.h"
#include "dissociated/uri.h"
#include "session/charged_stream.h"
#include "session/reader_impl.h"
#include "session/say.h"
#include "transport/registry.h"

namespace crossdock::session {
namespace {

constexpr const char* kScheme = "grpc-put";
/// How long a client may send nothing: it may make its table meanwhile, and keeps a place.
constexpr std::chrono::minutes kIdle{5};

/// Gives out one connection: a Reader takes its connection from a pool, and the pool from a transport.
class OneConnection final : public transport::Transport {
 public:
  explicit OneConnection(std::unique_ptr<transport::Connection> connection) : connection_(std::move(connection)) {}
  std::string_view scheme() const noexcept override { return kScheme; }
  transport::Ways ways() const noexcept override { return transport::Way::kMessage; }
  bool needs_sealed_files() const noexcept override { return false; }
  void check_address(const std::string& address) const override { static_cast<void>(listen(address, 0, 0, nullptr)); }
  std::unique_ptr<transport::Listener> listen(const std::string&, std::uint64_t, std::uint64_t,
                                              LogCallback) const override {
    throw UnsupportedError("a call has no listener");
  }
  std::unique_ptr<transport::Connection> connect(const std::string&, const transport::ConnectOptions&, int,
                                                 const transport::InterruptHook&) const override {
    return std::move(connection_);
  }

 private:
  mutable std::unique_ptr<transport::Connection> connection_;
};

std::unique_ptr<Reader> reader_of(const std::shared_ptr<PutCall>& call, const ServerOptions& options) {
  auto transports = std::make_shared<transport::TransportRegistry>();
  transports->add(std::make_shared<const OneConnection>(std::make_unique<PutConnection>(call)));
  const std::string uri = std::string(kScheme) + ":" + call->peer();
  ClientOptions from{.timeout = kIdle, .transports = std::move(transports), .runtime = options.runtime};
  dissociated::Uri address;
  address.scheme = kScheme;
  address.address = call->peer();
  auto pool = std::make_shared<ClientPool>(address, transport::ConnectOptions{}, uri, from);
  GetOptions how;
  how.wait = transport::WaitMode::kBlock;
  how.timeout = kIdle;
  how.limits = options.limits;
  how.arena = options.runtime->make_arena(options.flight.max_put_bytes);
  return std::make_unique<Reader>(std::make_unique<Reader::Impl>(pool, nullptr, "", how, nullptr));
}

}  // namespace

void check_is_free(const flight::Directory& directory, const std::string& name) {
  try {
    static_cast<void>(directory.flight(name));
  } catch (const NotFoundError&) {
    return;
  }
  throw InvalidArgumentError(
      '"' + excerpt(name) +
      "\" is already published, and it isn't to be replaced: give it with replace=True; a server "
      "takes that from clients with puts=\"replace\" (`crossdock serve --puts replace`)");
}

void Puts::start(const std::shared_ptr<PutCall>& call) {
  if (options_.flight.puts == FlightPuts::kRefused) {
    throw UnsupportedError("this server takes no tables from clients: " + shown(call->name()) + " wasn't published");
  }
  threads_.start([this, call] { receive(call); });
}

void Puts::receive(const std::shared_ptr<PutCall>& call) const {
  try {
    const bool replace = options_.flight.puts == FlightPuts::kReplace && !call->only_new();
    if (!replace) check_is_free(directory_, call->name());
    publish_(call->name(), Source::table(bounded(reader_of(call, options_), options_.flight.max_put_bytes)), replace);
    say(options_.log, LogLevel::kInfo,
        [&] { return "the Flight client at " + call->peer() + " has published " + shown(call->name()); });
    call->finish({});
  } catch (const std::exception& error) {
    say(options_.log, LogLevel::kWarning, [&] {
      return "the table " + shown(call->name()) + " of the Flight client at " + call->peer() +
             " wasn't published: " + error.what();
    });
    call->finish(flight::status_of(error));
  }
}

}  // namespace crossdock::session
