#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "flight/messages.h"
#include "flight/ticket.h"

namespace crossdock::flight {

/// The methods of Flight's service.
enum class Method : std::uint8_t {
  kHandshake,
  kListFlights,
  kGetFlightInfo,
  kPollFlightInfo,
  kGetSchema,
  kDoGet,
  kDoPut,
  kDoExchange,
  kDoAction,
  kListActions,
  kUnknown,
};
Method method_of(std::string_view name) noexcept;

/// What a server says of one published name.
struct Flight {
  std::string name;
  Bytes schema{};           ///< An IPC Schema message; empty: not known yet.
  std::int64_t rows = -1;   ///< -1: not known.
  std::int64_t bytes = -1;  ///< -1: not known.
};

/// The published names of a server. Called on any thread, several at once.
class Directory {
 public:
  virtual ~Directory() = default;
  virtual std::vector<Flight> flights() const = 0;
  /// Throws NotFoundError.
  virtual Flight flight(std::string_view name) const = 0;
};

/// Who may call a server. Without a token and a login everybody may, and tickets are names.
struct Access {
  std::string token{};  ///< The secret of those who may call; empty: none.
  /// Whether a user of this name has this password; empty: users have no logins. Called on any thread, and may wait.
  /// What it throws is thrown on.
  std::function<bool(const std::string& user, const std::string& password)> login{};
  std::shared_ptr<const TicketKeys> keys{};  ///< Not null if somebody is asked for a token or a login.
  std::int64_t ticket_lifetime_s = 300;
  std::int64_t login_lifetime_s = 12 * 3600;

  bool asks() const noexcept { return !token.empty() || login; }
  /// Returns the name that a request of the data plane asks for. `authenticated`: whether the caller has proved
  /// otherwise who it is, and may ask by name. Throws UnauthenticatedError.
  std::string name_in(std::string_view request, bool authenticated) const;
};

/// Answers the calls of Flight's service that carry no data. Thread-safe.
class Service {
 public:
  /// Returns the location at which one table's memory can be read with a key of its own (remote_handle); empty if there
  /// is none. Called on any thread, and may wait.
  using OwnLocation = std::function<std::string(const std::string& name)>;

  /// `locations`: URIs of the data plane of this server, in the order of preference. `own_location`: empty if no table
  /// has one.
  Service(const Directory& directory, std::vector<std::string> locations, Access access, OwnLocation own_location = {});

  const Access& access() const noexcept { return access_; }

  /// Throws UnauthenticatedError unless the call's headers have the token, or what a login was answered with. The
  /// comparison takes the same time for all tokens of one length.
  void check_caller(std::string_view authorization, std::string_view auth_token) const;

  /// What Handshake answers: a message, and the value of the header "authorization", either of which may be empty.
  struct Login {
    Bytes payload{};
    std::string authorization{};
  };
  /// Takes the token as the password of any user name, and what Access::login accepts: in the header ("Basic ..."), or
  /// in the message, a Handshake with a BasicAuth or the token in it. May wait for Access::login. Throws
  /// UnauthenticatedError, ProtocolError.
  Login log_in(std::string_view authorization, ByteSpan message) const;

  /// Returns the messages that answer a request, of any method but Handshake, DoGet, DoPut and DoExchange. Throws the
  /// error that the caller gets: ProtocolError, NotFoundError, UnsupportedError.
  std::vector<Bytes> answer(Method method, ByteSpan request) const;

 private:
  FlightInfo info_of(Flight flight) const;
  FlightInfo find(ByteSpan descriptor) const;
  bool is_token(std::string_view text) const noexcept;
  bool is_login(std::string_view bearer) const;
  std::string bearer_for(const BasicAuth& login) const;

  const Directory& directory_;
  const std::vector<std::string> locations_;
  const Access access_;
  const OwnLocation own_location_;
};

/// Returns the descriptor of a published name: a path of one part, or a command for a name that isn't text, which a
/// path can't have.
FlightDescriptor descriptor_of(std::string_view name);
/// The reverse; nothing if a descriptor isn't one of a name.
std::optional<std::string> name_of(const FlightDescriptor& descriptor);
/// The same for the descriptor of a call. Throws UnsupportedError for other commands, which belong to other protocols;
/// InvalidArgumentError for a path that isn't of one part.
std::string name_in(const FlightDescriptor& descriptor);

/// The application metadata of DoPut's first message by which a client of Crossdock's says that the table mustn't
/// replace another one.
inline constexpr std::string_view kOnlyNew = "crossdock:only-new";

/// Returns the bytes of a ticket. Throws ProtocolError.
std::string bytes_in_ticket(ByteSpan message);

}  // namespace crossdock::flight
