#include "session/flight/channel.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/base64.h"
#include "core/log_sinks.h"
#include "core/text.h"
#include "core/user_info.h"
#include "crossdock/core/error.h"
#include "session/flight/location.h"
#include "session/flight/message.h"
#include "session/flight/outgoing_call.h"
#include "session/remote_error.h"
#include "transport/tls.h"

namespace crossdock::session {
namespace {

/// gRPC's names of the codes (grpc.io, "Status codes").
const char* name_of(flight::StatusCode code) noexcept {
  constexpr std::array<const char*, 17> kNames = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "of an unknown code";
}

/// Whether gRPC's text says that no connection was made. It gives no other sign of that.
bool nobody_answered(std::string_view text) noexcept {
  constexpr std::array<std::string_view, 3> kReasons = {"Failed to connect to remote host", "Connection refused",
                                                        "DNS resolution failed"};
  return std::ranges::any_of(kReasons,
                             [&](std::string_view reason) { return text.find(reason) != std::string_view::npos; });
}

/// Returns what may be wrong with a connection that was made, as the end of a sentence. gRPC's reasons say little of
/// TLS; of most faults it says only that the handshake failed.
const char* hint(const std::string& where) noexcept {
  if (!where.starts_with(kEncryptedFlight)) return "; a server that encrypts is at grpc+tls:";
  return "; if it is there: a certificate wasn't accepted (the trusted issuers, the name or the date of the server's, "
         "or "
         "it wants one of this client), or the server is a plain grpc: one";
}

}  // namespace

std::string text_of(const flight::Status& status) {
  using flight::StatusCode;
  if (flight::status_of_text(status.text).code != StatusCode::kUnknown) return status.text;
  const auto code = [&] {
    switch (status.code) {
      case StatusCode::kNotFound: return ErrorCode::kNotFound;
      case StatusCode::kUnavailable: return ErrorCode::kConnection;
      case StatusCode::kUnauthenticated:
      case StatusCode::kPermissionDenied: return ErrorCode::kPermission;
      case StatusCode::kUnimplemented: return ErrorCode::kUnsupported;
      case StatusCode::kDeadlineExceeded: return ErrorCode::kTimeout;
      case StatusCode::kResourceExhausted: return ErrorCode::kResource;
      default: return ErrorCode::kRemote;
    }
  }();
  return std::string(error_name(code)) + ": " + status.text + " (gRPC's " + name_of(status.code) + ")";
}

void throw_status(const flight::Status& status, const std::string& where) {
  const std::string text = text_of(status);
  // The arguments of a call are the client's.
  constexpr std::string_view kInvalid = "InvalidArgumentError: ";
  if (status.code == flight::StatusCode::kInvalidArgument && text.starts_with(kInvalid)) {
    throw InvalidArgumentError(excerpt(text.substr(kInvalid.size()), kMostErrorText) + " (reported by " + where + ")");
  }
  if (status.code != flight::StatusCode::kUnavailable) throw_remote(text, where);
  throw ConnectionError("no Flight server answers at " + where + ": " + excerpt(text, kMostErrorText) +
                        (nobody_answered(status.text) ? "" : hint(where)));
}

xd_tls tls_for(const transport::TlsOptions& options, bool server) {
  return {.on = 1,
          .roots = bytes_of(server ? options.client_roots : options.roots),
          .certificate_chain = bytes_of(options.certificate_chain),
          .private_key = bytes_of(options.private_key),
          .server_name = bytes_of(options.server_name)};
}

std::shared_ptr<FlightChannel> FlightChannel::open(std::string_view scheme, const std::string& address,
                                                   const GrpcOptions& options, const transport::TlsOptions* tls) {
  std::optional<std::string> target = host_and_port(address);
  if (!target) {
    const std::string start = std::string(scheme) + ":";
    throw UriError("a Flight server is at " + start + "//HOST:PORT, not at " + start + excerpt(without_user(address)));
  }
  return std::shared_ptr<FlightChannel>(new FlightChannel(CarrierLibrary::get(), *std::move(target), options, tls));
}

FlightChannel::FlightChannel(std::shared_ptr<const CarrierLibrary> carrier, std::string target,
                             const GrpcOptions& options, const transport::TlsOptions* tls)
    : carrier_(std::move(carrier)),
      encrypted_(tls != nullptr),
      where_((encrypted_ ? std::string(kEncryptedFlight) : "grpc") + "://" + excerpt(target)),
      host_(host_without_port(target)),
      login_(options.user.empty() && options.password.empty()
                 ? std::string()
                 : "Basic " + to_base64(as_bytes(options.user + ":" + options.password))),
      authorization_(options.token.empty() ? std::string() : "Bearer " + options.token) {
  if (!login_.empty() && !authorization_.empty()) {
    throw InvalidArgumentError("give a token or a login for " + where_ + ", not both");
  }
  if (options.user.find(':') != std::string::npos) throw InvalidArgumentError("a user name has no colon");
  xd_channel_options wanted{.size = sizeof(xd_channel_options),
                            .target = bytes_of(target),
                            .tls = {},
                            .max_message = std::numeric_limits<std::int32_t>::max()};
  std::string roots;
  if (encrypted_) {
    transport::check_tls(*tls, false);
    wanted.tls = tls_for(*tls, false);
    if (tls->roots.empty()) {  // gRPC's own roots are from other places than OpenSSL's
      roots = transport::system_roots();
      wanted.tls.roots = bytes_of(roots);
    }
  }
  channel_ = carrier_->calls().channel_open(&wanted);
}

FlightChannel::~FlightChannel() { carrier_->calls().channel_close(channel_); }

std::string FlightChannel::authorization() const {
  const std::lock_guard lock(mutex_);
  return authorization_;
}

FlightChannel::Answer FlightChannel::answer_to(const char* method, flight::Bytes request,
                                               std::optional<std::string> authorization, int timeout_ms,
                                               const transport::InterruptHook& interrupted) {
  const auto call =
      OutgoingCall::start(shared_from_this(), method, {std::move(request)}, false, {}, std::move(authorization));
  Answer answer;
  std::uint64_t bytes = 0;
  try {
    for (;;) {
      call->wait(timeout_ms, interrupted);
      while (const auto message = call->take()) {
        bytes += message->size();
        if (bytes > kMostAnswers) {
          throw ResourceError("the answer of " + where_ + " to " + method + " is over the limit of " +
                              std::to_string(kMostAnswers) + " bytes");
        }
        answer.messages.push_back(message->whole());
      }
      if (const auto status = call->over()) {
        answer.status = *status;
        answer.authorization = call->answered_authorization();
        return answer;
      }
    }
  } catch (...) {
    call->cancel();
    throw;
  }
}

void FlightChannel::log_in(int timeout_ms, const transport::InterruptHook& interrupted) {
  Answer answer = answer_to("Handshake", flight::encode(flight::Handshake{}), login_, timeout_ms, interrupted);
  if (answer.status.code != flight::StatusCode::kOk) throw_status(answer.status, where_);
  if (answer.authorization.empty()) {
    throw UnsupportedError(where_ + " answers a login without the header \"authorization\", which later calls need");
  }
  const std::lock_guard lock(mutex_);
  authorization_ = std::move(answer.authorization);
}

std::vector<flight::Bytes> FlightChannel::ask(const char* method, flight::Bytes request, int timeout_ms,
                                              const transport::InterruptHook& interrupted) {
  bool logged_in = !logs_in();
  if (logs_in() && authorization().empty()) {
    log_in(timeout_ms, interrupted);
    logged_in = true;
  }
  for (;;) {
    Answer answer = answer_to(method, request, {}, timeout_ms, interrupted);
    if (answer.status.code == flight::StatusCode::kOk) return std::move(answer.messages);
    // A login is valid for some time, and a server that was started again may know it no longer.
    if (answer.status.code != flight::StatusCode::kUnauthenticated || logged_in) throw_status(answer.status, where_);
    log_in(timeout_ms, interrupted);
    logged_in = true;
  }
}

}  // namespace crossdock::session
