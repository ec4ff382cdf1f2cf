#include "session/flight/server.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/host_name.h"
#include "core/text.h"
#include "core/user_info.h"
#include "crossdock/core/error.h"
#include "dissociated/uri.h"
#include "session/flight/answer_call.h"
#include "session/flight/channel.h"
#include "session/flight/get_call.h"
#include "session/flight/get_queue.h"
#include "session/flight/location.h"
#include "session/flight/message.h"
#include "session/say.h"
#include "transport/hosts.h"
#include "transport/tls.h"

namespace crossdock::session {
namespace {

// Room beside the bodies of a table: one that is a little longer than `max_put` gets an error that says so.
constexpr std::uint64_t kBesideBodies = 64 << 20;
// For calls that are sending their last messages when the server is closed.
constexpr std::int32_t kPatienceMs = 500;

/// Returns "host:port" of "grpc://host:port".
std::string address_of(const std::string& text) {
  const dissociated::Uri uri = dissociated::parse_uri(text);
  if (uri.scheme != "grpc" && uri.scheme != "grpc+tcp" && uri.scheme != kEncryptedFlight) {
    throw SchemeError("a Flight server listens at grpc://HOST:PORT or grpc+tls://HOST:PORT, not at " +
                      shown(without_user(text)));
  }
  std::optional<std::string> address = host_and_port(uri.address);
  if (!address) throw UriError(shown(without_user(text)) + " isn't grpc://HOST:PORT; port 0 is a free one");
  return *std::move(address);
}

/// Returns the system's error in the text of gRPC's, as in os_error:"Permission denied"; "" if there is none.
std::string_view system_error_in(std::string_view failure) {
  std::size_t begin = failure.find("os_error");
  if (begin != failure.npos) begin = failure.find(':', begin);
  if (begin != failure.npos) begin = failure.find('"', begin);
  if (begin == failure.npos) return {};
  const std::size_t end = failure.find('"', ++begin);
  return end == failure.npos ? std::string_view{} : failure.substr(begin, end - begin);
}

/// Throws what gRPC says when it can't listen, without the places in its source.
[[noreturn]] void throw_not_listening(const std::string& uri, std::string_view failure) {
  const std::string what = "can't listen at " + excerpt(uri) + ": ";
  const std::string_view error = system_error_in(failure);
  const auto is = [error](std::errc code) { return error == std::make_error_code(code).message(); };
  if (is(std::errc::address_in_use)) {
    throw ConnectionError(what + "another process listens there; use port 0 to get a free port");
  }
  if (is(std::errc::address_not_available)) throw ConnectionError(what + "this machine has no such address");
  if (is(std::errc::permission_denied)) throw PermissionError(what + "this user may not use that port");
  if (!error.empty()) throw ConnectionError(what + excerpt(error, kMostErrorText));
  constexpr std::string_view kStatus = "UNKNOWN:";
  if (failure.starts_with(kStatus)) failure.remove_prefix(kStatus.size());
  throw ConnectionError(what + excerpt(failure.substr(0, failure.find(" {")), kMostErrorText));
}

/// gRPC has one limit for all messages of a server; ReceivedMessage::request() has the one for requests.
std::int64_t most_message(const FlightOptions& options) {
  if (options.puts == FlightPuts::kRefused) return static_cast<std::int64_t>(kMostRequest);
  const std::uint64_t bodies = options.max_put_bytes == 0 ? kMostMessage : options.max_put_bytes;
  return static_cast<std::int64_t>(std::min(bodies, kMostMessage - kBesideBodies) + kBesideBodies);
}

/// The reasons why a login can't be checked are logged: they aren't for whoever tries to log in.
flight::Access with_private_failures(flight::Access access, const LogCallback& log) {
  if (!access.login) return access;
  access.login = [login = std::move(access.login), log](const std::string& user, const std::string& password) {
    try {
      return login(user, password);
    } catch (const std::exception& error) {
      say(log, LogLevel::kError, [&] { return std::string("a login can't be checked: ") + error.what(); });
      throw RemoteError("authenticate() has failed, and the server's log has the reason");
    }
  };
  return access;
}

std::string with_port(const std::string& address, std::int32_t port) {
  return address.substr(0, address.rfind(':') + 1) + std::to_string(port);
}

}  // namespace

FlightServer::FlightServer(const ServerOptions& options, flight::Access access, const flight::Directory& directory,
                           Puts::Publish publish)
    : carrier_(CarrierLibrary::get()),
      log_(CarrierLibrary::log_sinks().add(options.log)),
      options_(options),
      access_(with_private_failures(std::move(access), options.log)),
      directory_(directory),
      encrypted_(dissociated::parse_uri(options.flight.uri).scheme == kEncryptedFlight),
      queue_(std::make_shared<GetQueue>()),
      puts_(options, directory, publish),
      offers_(options, directory, std::move(publish)),
      refusals_(options_.log) {}

void FlightServer::check(const FlightOptions& options) {
  static_cast<void>(CarrierLibrary::get());
  static_cast<void>(address_of(options.uri));
  if (dissociated::parse_uri(options.uri).scheme == kEncryptedFlight) transport::check_tls(options.tls, true);
}

FlightServer::~FlightServer() { stop(); }

std::unique_ptr<transport::Listener> FlightServer::listener() const { return std::make_unique<GetListener>(queue_); }

void FlightServer::start(std::vector<std::string> locations, flight::Service::OwnLocation own_location) {
  service_ = std::make_unique<const flight::Service>(directory_, by_cost(std::move(locations)), access_,
                                                     std::move(own_location));
  const std::string address = address_of(options_.flight.uri);
  const bool every_address = address.starts_with("*:");
  const std::string bound = every_address ? "[::]" + address.substr(1) : address;
  const xd_server_options options{.size = sizeof(xd_server_options),
                                  .address = bytes_of(bound),
                                  .tls = encrypted_ ? tls_for(options_.flight.tls, true) : xd_tls{},
                                  .max_message = most_message(options_.flight),
                                  .begin = &FlightServer::begin,
                                  .server_data = this};
  std::int32_t port = 0;
  std::string failure;
  server_ = carrier_->calls().server_start(
      &options, &port, [](void* out, xd_bytes text) { *static_cast<std::string*>(out) = text_of(text); }, &failure);
  if (server_ == nullptr) throw_not_listening(options_.flight.uri, failure);
  uri_ = (encrypted_ ? std::string(kEncryptedFlight) : "grpc") + "://" +
         with_port(every_address ? host_name() + address.substr(1) : address, port);
  const bool checked = access_.asks() || (encrypted_ && !options_.flight.tls.client_roots.empty());
  if (!checked && !transport::is_loopback_host(host_without_port(bound))) {
    say(options_.log, LogLevel::kWarning, [this] { return transport::open_address_warning(uri_); });
  }
}

void* FlightServer::begin(void* self, xd_call* carried, const xd_caller* caller, xd_call_events* events) {
  auto& server = *static_cast<FlightServer*>(self);
  const flight::Method method = flight::method_of(text_of(caller->method));
  const std::string_view authorization = text_of(caller->authorization);
  std::string peer = excerpt(text_of(caller->peer));
  std::exception_ptr refusal;
  try {
    if (method != flight::Method::kHandshake) server.service_->check_caller(authorization, text_of(caller->auth_token));
  } catch (const std::exception&) {
    refusal = std::current_exception();
  }
  std::shared_ptr<Call> call;
  if (method == flight::Method::kDoGet) {
    // A signed ticket is enough, whoever brings it.
    const bool authenticated = !refusal;
    refusal = nullptr;
    call = std::make_shared<GetCall>(
        server.carrier_, carried, GetCall::Caller{std::move(peer), server.encrypted_, authenticated},
        [&server, authenticated](std::string_view ticket) {
          static_cast<void>(server.service_->access().name_in(ticket, authenticated));
        },
        [queue = server.queue_](std::shared_ptr<GetCall> got) { queue->add(std::move(got)); });
  } else if (method == flight::Method::kDoPut) {
    call = std::make_shared<PutCall>(server.carrier_, carried, std::move(peer),
                                     [&server](const std::shared_ptr<PutCall>& put) { server.puts_.start(put); });
  } else {
    call = std::make_shared<AnswerCall>(
        server.carrier_, carried,
        AnswerCall::Answerers{*server.service_, server.logins_, server.offers_, server.refusals_}, method,
        std::move(peer), std::string(authorization));
  }
  void* const data = call->attach(events);
  try {
    if (refusal) std::rethrow_exception(refusal);
    call->read();
  } catch (const std::exception& error) {
    server.refusals_.log(excerpt(text_of(caller->peer)), error);
    call->finish(flight::status_of(error));
  }
  return data;
}

void FlightServer::stop() noexcept {
  const std::lock_guard lock(stopping_);  // whoever comes second returns when all has ended, too
  if (xd_server* const server = std::exchange(server_, nullptr)) carrier_->calls().server_stop(server, kPatienceMs);
  logins_.wait();
  offers_.wait();
  puts_.wait();
}

}  // namespace crossdock::session
