#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crossdock/session/flight.h"
#include "crossdock/transport/options.h"
#include "flight/messages.h"
#include "flight/status.h"
#include "session/flight/carrier_library.h"

namespace crossdock::session {

/// A client's connection to a Flight server: gRPC's, which connects when the first call starts, and again when it was
/// lost. Thread-safe. Calls keep it alive.
class FlightChannel : public std::enable_shared_from_this<FlightChannel> {
 public:
  /// `scheme`: of the URI, for errors. `address`: "//host:port". `tls`: null for a plain connection. Throws SchemeError
  /// (no module), UriError, InvalidArgumentError (options).
  static std::shared_ptr<FlightChannel> open(std::string_view scheme, const std::string& address,
                                             const GrpcOptions& options, const transport::TlsOptions* tls = nullptr);
  ~FlightChannel();
  FlightChannel(const FlightChannel&) = delete;
  FlightChannel& operator=(const FlightChannel&) = delete;

  /// Makes a call of one request, and returns its answers. Logs in before, if a login was given and is due. Throws the
  /// error that the server has sent (its class, if the server is Crossdock's), ConnectionError, PermissionError,
  /// TimeoutError, InterruptedError; ResourceError for more than kMostAnswers bytes.
  std::vector<flight::Bytes> ask(const char* method, flight::Bytes request, int timeout_ms,
                                 const transport::InterruptHook& interrupted);
  static constexpr std::uint64_t kMostAnswers = 256ull << 20;

  /// "grpc://host:port", for errors.
  const std::string& where() const noexcept { return where_; }
  const std::string& host() const noexcept { return host_; }

  // For the calls:
  const CarrierLibrary& carrier() const noexcept { return *carrier_; }
  xd_channel* handle() const noexcept { return channel_; }
  /// The header "authorization"; empty: none, or the login is still to come, by ask().
  std::string authorization() const;
  bool logs_in() const noexcept { return !login_.empty(); }
  bool encrypted() const noexcept { return encrypted_; }

 private:
  FlightChannel(std::shared_ptr<const CarrierLibrary> carrier, std::string target, const GrpcOptions& options,
                const transport::TlsOptions* tls);
  void log_in(int timeout_ms, const transport::InterruptHook& interrupted);
  struct Answer {
    std::vector<flight::Bytes> messages;
    flight::Status status;
    std::string authorization;
  };
  Answer answer_to(const char* method, flight::Bytes request, std::optional<std::string> authorization, int timeout_ms,
                   const transport::InterruptHook& interrupted);

  const std::shared_ptr<const CarrierLibrary> carrier_;
  const bool encrypted_;
  const std::string where_;
  const std::string host_;
  const std::string login_;  // the header that logs in; empty: none
  mutable std::mutex mutex_;
  std::string authorization_;
  xd_channel* channel_ = nullptr;
};

/// The scheme of Flight servers that encrypt.
inline constexpr std::string_view kEncryptedFlight = "grpc+tls";

/// Returns the options in the carrier's form, which refers to them. A client without roots needs system_roots().
xd_tls tls_for(const transport::TlsOptions& options, bool server);

/// Returns the text of an error message (type 255) for a status: the name of an error's class, a colon, and its text.
/// That of a status of Crossdock's is already that.
std::string text_of(const flight::Status& status);
/// Throws the error that a status says, of a call of `where`. The text of a status of Crossdock's begins with the name
/// of its class.
[[noreturn]] void throw_status(const flight::Status& status, const std::string& where);

}  // namespace crossdock::session
