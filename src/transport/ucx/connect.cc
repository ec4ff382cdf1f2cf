#include "connect.h"

#include <poll.h>

#include <optional>
#include <utility>
#include <vector>

#include "connection.h"
#include "crossdock/core/error.h"
#include "handshake.h"
#include "transport/internal/deadline.h"

namespace crossdock::transport::ucx {
namespace {

/// A connection that has answered, or the reason why there is none.
struct Attempt {
  std::shared_ptr<Worker> worker;
  std::unique_ptr<Endpoint> endpoint;
  std::optional<std::vector<std::byte>> answer;  ///< The server's first record; of one strictly as specified: empty.
  std::string why;
};

std::string why_failed(const Attempt& attempt) {
  const UcxLibrary& library = attempt.worker->context().library();
  if (attempt.endpoint->rejected()) {
    return "UCX of one end rejected that of the other: both ends need UCX of the same series, and this end has " +
           library.version() + " (" + library.path() + "); or too many clients wait there";
  }
  return "no server answers; UCX: " + attempt.endpoint->failure().value_or("");
}

/// Waits until `answer` returns something. Nothing: the connection has failed, or it is time to give up.
template <typename Answer>
std::optional<std::vector<std::byte>> await(const Attempt& attempt, const Deadline& deadline,
                                            std::optional<Deadline::Clock::time_point> give_up, Answer answer) {
  for (;;) {
    attempt.worker->progress();
    const bool failed = attempt.endpoint->failure().has_value();
    if (std::optional<std::vector<std::byte>> found = answer()) return found;
    if (failed || (give_up && Deadline::Clock::now() >= *give_up)) return std::nullopt;
    if (attempt.worker->arm()) deadline.wait(attempt.worker->descriptor(), POLLIN);
  }
}

/// Waits for the server's next record.
std::optional<std::vector<std::byte>> await_record(const Attempt& attempt, const std::string& where,
                                                   const Deadline& deadline,
                                                   std::optional<Deadline::Clock::time_point> give_up = {}) {
  return await(attempt, deadline, give_up, [&]() -> std::optional<std::vector<std::byte>> {
    const std::optional<Received> got = attempt.worker->take();
    if (!got) return std::nullopt;
    if (got->kind == MessageKind::kControl) return {{got->bytes.begin(), got->bytes.end()}};
    throw HandshakeError(where + " answered with something else: it is not a Crossdock server");
  });
}

/// Waits until UCX has connected the two ends. Returns an empty record.
std::optional<std::vector<std::byte>> await_connection(const Attempt& attempt, const Deadline& deadline,
                                                       std::optional<Deadline::Clock::time_point> give_up) {
  const std::shared_ptr<const Outcome> flushed = attempt.endpoint->flush();
  return await(attempt, deadline, give_up, [&]() -> std::optional<std::vector<std::byte>> {
    if (!flushed->over() || flushed->status() != UCS_OK) return std::nullopt;
    return std::vector<std::byte>();
  });
}

/// Connects to one address, sends the opening, and waits for an answer. Without an opening, waits for the connection.
Attempt try_address(UcxContexts& contexts, const SocketAddress& address, const ReceiveLimits& limits, ByteSpan opening,
                    const std::string& where, const Deadline& deadline,
                    std::optional<Deadline::Clock::time_point> give_up) {
  Attempt attempt;
  try {
    attempt.worker = std::make_shared<Worker>(contexts.for_remote(address), limits, where);
    attempt.endpoint = Endpoint::connect(attempt.worker, address);
    if (!opening.empty()) attempt.endpoint->send_control(opening);
    attempt.answer = opening.empty() ? await_connection(attempt, deadline, give_up)
                                     : await_record(attempt, where, deadline, give_up);
  } catch (const UnsupportedError& error) {  // IPv6 with an older UCX
    attempt.why = error.what();
    return attempt;
  } catch (const ConnectionError& error) {
    attempt.why = error.what();
    return attempt;
  }
  if (attempt.answer) return attempt;
  attempt.why = attempt.endpoint->failure() ? why_failed(attempt) : "no answer";
  return attempt;
}

/// Connects to the first address of the name that answers.
Attempt connect_first(UcxContexts& contexts, const HostPort& to, const ReceiveLimits& limits, ByteSpan opening,
                      const std::string& where, const Deadline& deadline) {
  const std::vector<SocketAddress> addresses = resolve(kScheme, to);
  std::string tried;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    Attempt attempt =
        try_address(contexts, addresses[i], limits, opening, where, deadline, deadline.share(addresses.size() - i));
    if (attempt.answer) return attempt;
    tried += (tried.empty() ? "" : "; ") + host_of(addresses[i]) + ": " + attempt.why;
  }
  throw ConnectionError("can't connect to " + where + " (" + tried + "); is the server up, and does it listen there?");
}

/// Connects to a server strictly as specified.
std::unique_ptr<Connection> connect_as_specified(UcxContexts& contexts, const HostPort& to, const UcxOptions& options,
                                                 const std::string& where, const Deadline& deadline,
                                                 const ConnectOptions& wishes) {
  const SpecifiedServer& server = *wishes.specified;
  const bool reads = !server.remote_handle.empty() && wishes.ways.has(Way::kRead);
  if (reads && !options.remote_reads) {
    throw UnsupportedError(
        "the URI of " + where +
        " has a remote_handle, for reads of its memory by UCX: these need "
        "UcxOptions::remote_reads (in Python remote_reads=\"trusted\", of crossdock get --remote-reads trusted), by "
        "which every peer can read and write all memory of this process");
  }
  const std::string which = where + " is strictly as specified, as its URI says (it has want_data, and no crossdock=1)";
  if (!options.token.empty()) {
    throw UnsupportedError(which + ": it can't prove that it knows the token; connect without one");
  }
  if (!wishes.ways.has(Way::kMessage) && !reads) {
    throw UnsupportedError(which + ": its bodies can't come in the way that this client wants (" +
                           to_text(wishes.ways) + "); leave the way out");
  }
  Attempt made = connect_first(contexts, to, limits_as_specified(options, options.max_message), {}, where, deadline);
  return std::make_unique<UcxConnection>(
      std::move(made.worker), std::move(made.endpoint),
      introduce_as_specified(options, server.want_data, server.free_data, wishes.role, reads, where), options, nullptr,
      SpecifiedMemory{.key = server.remote_handle});
}

}  // namespace

std::unique_ptr<Connection> connect_to(UcxContexts& contexts, const std::string& address, const UcxOptions& options,
                                       int timeout_ms, const InterruptHook& interrupted, const ConnectOptions& wishes) {
  const HostPort to = parse_address(kScheme, address);
  if (to.port == 0) throw UriError("ucx:" + address + " has no port to connect to: use the port of the server's uri");
  if (to.host == "*")
    throw UriError("ucx:" + address + " stands for every address of a machine: give the address to connect to");
  const std::string where = to_uri(kScheme, to.host.empty() ? "127.0.0.1" : to.host, to.port);
  const Deadline deadline(where, timeout_ms, interrupted);
  if (wishes.specified) return connect_as_specified(contexts, to, options, where, deadline, wishes);
  const net::Hello hello{.features = kOwnFeatures | net::features_of(wishes, kWays, where),
                         .max_message = options.max_message,
                         .max_body = options.max_body,
                         .role = static_cast<std::uint32_t>(wishes.role),
                         .has_token = !options.token.empty(),
                         .nonce = net::make_nonce()};
  net::ClientHandshake handshake(hello, options.token, kNames, where);
  // Data may follow the WELCOME at once, so the limits are final from the start.
  Attempt made =
      connect_first(contexts, to, limits_for(options, options.max_message), handshake.opening(), where, deadline);
  while (made.answer) {
    const std::vector<std::byte> proof = handshake.advance(*std::move(made.answer));
    if (handshake.complete()) break;
    made.endpoint->send_control(proof);
    made.answer = await_record(made, where, deadline);
  }
  if (!handshake.complete()) {
    throw HandshakeError(where + " closed the connection instead of answering: is it a Crossdock server?");
  }
  const ConnectOptions agreed = net::agreed_wishes(wishes.role, hello.features, handshake.welcome().features);
  if (agreed.ways.empty()) {
    throw UnsupportedError("bodies can't reach this client of " + where +
                           " in the way that it wants (read): this server is of a version that doesn't let its "
                           "memory be read");
  }
  return std::make_unique<UcxConnection>(std::move(made.worker), std::move(made.endpoint),
                                         introduce(hello, handshake.welcome(), handshake.welcome(), agreed, where),
                                         options, nullptr);
}

}  // namespace crossdock::transport::ucx
