// Bodies over one of our connections, one end of it. The server prints a line of JSON, its URI, and serves one client;
// the client prints what a body cost it, in nanoseconds from the end of one to the end of the next.
//   --role serve, consume    the server sends one body after another
//   --role pong, ping        the client sends a body and gets it back; one is under way at a time. Clients send no
//                            bodies otherwise: its own goes as a tagged message.
//   --uri URI                where to listen or to connect: tcp://127.0.0.1:0, ucx://10.0.0.1:0
//   --checksum auto | on | off   of a server over tcp
//   --certificate FILE --key FILE --roots FILE   over tcp+tls: of a server, and whom a client trusts
//   --window N               messages that a sending server has on their way, as a session has; two for each body
//   --body-bytes N --sets N  bodies, each from memory of its own in turns
//   --parts N                of each body, apart from each other; 8 as a batch of 8 columns on the heap, 1 as of a
//                            published table
//   --batches N --warm-up N --wait MODE
// Before each body goes a message of the size of its metadata. Bodies are received into memory that is used again and
// again, one being kept while the next arrives.
#include <poll.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "body_memory.h"
#include "crossdock/core/error.h"
#include "crossdock/session/transports.h"
#include "dissociated/uri.h"
#include "transport/registry.h"
#include "transport/transport.h"

namespace crossdock::bench {
namespace {

transport::Checksum checksum_of(const std::string& name) {
  if (name == "on") return transport::Checksum::kOn;
  if (name == "off") return transport::Checksum::kOff;
  if (name == "auto") return transport::Checksum::kAuto;
  throw InvalidArgumentError("--checksum is auto, on or off");
}

std::string file(const Arguments& arguments, const char* option) {
  const std::string path = arguments.text(option);
  if (path.empty()) return {};
  std::ifstream in(path, std::ios::binary);
  if (!in) throw NotFoundError("--" + std::string(option) + ": " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

session::TransportOptions options_of(const Arguments& arguments) {
  session::TransportOptions options;
  options.tcp.checksum = checksum_of(arguments.text("checksum", "auto"));
  options.tls = {.certificate_chain = file(arguments, "certificate"),
                 .private_key = file(arguments, "key"),
                 .roots = file(arguments, "roots")};
  return options;
}

std::unique_ptr<transport::Connection> accept_one(const Arguments& arguments) {
  const dissociated::Uri uri = dissociated::parse_uri(arguments.text("uri"));
  const auto listener =
      session::make_transports(options_of(arguments))->find(uri.scheme)->listen(uri.address, 1, 2, nullptr);
  std::printf("{\"uri\":\"%s\"}\n", listener->uri().c_str());
  std::fflush(stdout);
  for (;;) {
    if (auto connection = listener->accept()) return connection;
    pollfd ask{listener->descriptor(), POLLIN, 0};
    ::poll(&ask, 1, -1);
  }
}

std::unique_ptr<transport::Connection> connect(const Arguments& arguments) {
  const dissociated::Uri uri = dissociated::parse_uri(arguments.text("uri"));
  return session::make_transports(options_of(arguments))->find(uri.scheme)->connect(uri.address, {}, 10'000, nullptr);
}

/// One end: a body is sent with its metadata, and received after it.
class End {
 public:
  End(std::unique_ptr<transport::Connection> connection, const Arguments& arguments, const Plan& plan)
      : connection_(std::move(connection)), wait_(arguments.wait("wait")), plan_(plan), metadata_(kMetadata) {}

  /// Sends body number `i`. False if there is no room: to be called again with the same.
  bool send_body(std::int64_t i) {
    return send(i, [&](std::uint64_t tag, const Memory& body) {
      return connection_->send_body(tag, parts_of(body, plan_), nullptr);
    });
  }
  bool send_tagged(std::int64_t i) {
    return send(i, [&](std::uint64_t tag, const Memory& body) {
      return connection_->send_tagged(tag, {body.get(), plan_.body_bytes}, {});
    });
  }
  /// Waits for body number `i`. Releases the one before.
  void receive(std::int64_t i) {
    for (;;) {
      auto message = connection_->receive();
      if (!message) {
        wait();
      } else if (message->tagged) {
        kept_ = *std::move(message);
        check_body(kept_.bytes, i, plan_);
        return;
      }
    }
  }
  void wait() { transport::wait_readable(*connection_, wait_, 0, nullptr); }
  transport::Connection& connection() { return *connection_; }

 private:
  template <typename F>
  bool send(std::int64_t i, F its_body) {
    if (memory_.empty()) memory_ = make_bodies(plan_);
    metadata_sent_ = metadata_sent_ || connection_->send(metadata_, {});
    if (!metadata_sent_) return false;
    metadata_sent_ = !its_body(static_cast<std::uint64_t>(i), memory_[static_cast<std::size_t>(i) % memory_.size()]);
    return !metadata_sent_;
  }

  std::vector<Memory> memory_;  // outlives the connection, which may be sending it
  std::unique_ptr<transport::Connection> connection_;
  transport::WaitMode wait_;
  const Plan& plan_;
  std::vector<std::byte> metadata_;
  bool metadata_sent_ = false;
  transport::Incoming kept_;
};

/// Sends until the client goes: at the end of its measurement as many bodies are under way as at the start.
void serve(const Arguments& arguments, const Plan& plan) {
  const auto window = static_cast<std::size_t>(arguments.number("window", 128));
  End end(accept_one(arguments), arguments, plan);
  const std::int64_t start_cpu = cpu_ns();
  std::int64_t sent = 0;
  try {
    for (;;) {
      if (end.connection().below_window(window) && end.send_body(sent)) {
        ++sent;
      } else if (!end.connection().receive()) {
        end.wait();
      }
    }
  } catch (const ConnectionError&) {
    // The client has what it wants.
  }
  std::printf("{\"cpu\":%.1f}\n", static_cast<double>(cpu_ns() - start_cpu) / static_cast<double>(sent));
}

void consume(const Arguments& arguments, const Plan& plan) {
  End end(connect(arguments), arguments, plan);
  measure(plan, [&](std::int64_t i) { end.receive(i); });
}

void pong(const Arguments& arguments, const Plan& plan) {
  End end(accept_one(arguments), arguments, plan);
  try {
    for (std::int64_t i = 0;; ++i) {
      end.receive(i);
      while (!end.send_body(i)) end.wait();
    }
  } catch (const ConnectionError&) {
    // The client has what it wants.
  }
}

void ping(const Arguments& arguments, const Plan& plan) {
  End end(connect(arguments), arguments, plan);
  measure(plan, [&](std::int64_t i) {
    while (!end.send_tagged(i)) end.wait();
    end.receive(i);
  });
}

void transfer(const Arguments& arguments) {
  const Plan plan(arguments);
  const std::string role = arguments.text("role");
  if (role == "serve") return serve(arguments, plan);
  if (role == "consume") return consume(arguments, plan);
  if (role == "pong") return pong(arguments, plan);
  if (role == "ping") return ping(arguments, plan);
  throw InvalidArgumentError("--role is serve, consume, pong or ping");
}

}  // namespace
}  // namespace crossdock::bench

int main(int argc, char** argv) {
  return crossdock::bench::run(argc, argv,
                               {"role", "uri", "checksum", "certificate", "key", "roots", "window", "body-bytes",
                                "parts", "sets", "batches", "warm-up", "wait"},
                               crossdock::bench::transfer);
}
