#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "device/region_address.h"
#include "dissociated/wire.h"
#include "ipc/metadata.h"
#include "support/batches.h"
#include "transport/registry.h"
#include "transport/shm.h"
#include "transport/transport.h"

/// A server whose messages a test writes.
namespace crossdock::session {

inline transport::Incoming wait_for_message(transport::Connection& connection) {
  const auto in_20_s = std::chrono::steady_clock::now().time_since_epoch() + std::chrono::seconds(20);
  const std::int64_t deadline = std::chrono::duration_cast<std::chrono::nanoseconds>(in_20_s).count();
  for (;;) {
    if (auto message = connection.receive()) return *message;
    if (!transport::wait_readable(connection, transport::WaitMode::kBlock, deadline, {})) {
      throw TimeoutError("no message came");
    }
  }
}

/// A server that answers the first request of its one client by `script`, then waits for the client to go.
class FakeServer {
 public:
  /// Throws ConnectionError to close the connection at once.
  using Script = std::function<void(transport::Connection&)>;
  explicit FakeServer(Script script, const transport::Transport& carrier = *transport::make_shm_transport())
      : listener_(carrier.listen("", 1, 2, nullptr)),
        uri_(listener_->uri()),
        thread_([this, script = std::move(script)] { run(script); }) {}
  ~FakeServer() { thread_.join(); }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;
  const std::string& uri() const { return uri_; }

 private:
  void run(const Script& script) {
    try {
      const std::unique_ptr<transport::Connection> connection = await_request();
      if (connection == nullptr) return;
      script(*connection);
      for (;;) wait_for_message(*connection);
    } catch (const ConnectionError&) {  // the client has gone, as it should
    } catch (const ProtocolError&) {    // the client asks for memory that the script has retired too early
    }
    connections_.clear();
    listener_.reset();  // over UCX, its connections end with it
  }
  // The connection over which the first request comes: a client may have others, which stay idle.
  std::unique_ptr<transport::Connection> await_request() {
    for (;;) {
      if (auto connection = listener_->accept()) connections_.push_back(std::move(connection));
      std::vector<pollfd> events = {{listener_->descriptor(), POLLIN, 0}};
      bool sleeps = true;
      for (auto& connection : connections_) {
        if (connection->receive()) return std::move(connection);
        sleeps = sleeps && connection->prepare_sleep();
        events.push_back({connection->descriptor(), POLLIN, 0});
      }
      if (sleeps && ::poll(events.data(), events.size(), 20'000) == 0) {
        ADD_FAILURE() << "no request came";
        return nullptr;
      }
      for (const auto& connection : connections_) connection->wake();
    }
  }

  std::unique_ptr<transport::Listener> listener_;
  const std::string uri_;
  std::vector<std::unique_ptr<transport::Connection>> connections_;
  std::thread thread_;
};

/// One batch of numbers and what a server needs to send it: the truth, for scripts to bend.
struct Truth {
  array::RecordBatch batch = testing::number_batch(0, 10);
  ipc::Encoder encoder;
  std::shared_ptr<const device::Region> region;
  std::uint64_t base = device::make_address(7, 0);  ///< The client's name for the region's first byte: over shm.
  std::vector<dissociated::RemoteBuffer> remote;
  std::uint64_t too_much = 0;  ///< In the total of a body.

  Truth() {
    device::RegionWriter writer("test");
    for (const array::BufferView& buffer : batch.buffers) {
      const auto size = static_cast<std::uint64_t>(buffer.size);
      if (size == 0) {
        remote.push_back({});
        continue;
      }
      const std::uint64_t at = writer.append({static_cast<const std::byte*>(buffer.data), size});
      remote.push_back({base + at, size});
    }
    region = writer.freeze();
  }

  /// Announces the region as number 7, over whatever transport.
  void announce(transport::Connection& c) {
    const std::uint64_t before = std::exchange(base, c.announce(7, region).value());
    for (dissociated::RemoteBuffer& buffer : remote) {
      if (buffer.length != 0) buffer.address += base - before;
    }
  }
  static void metadata(transport::Connection& c, std::uint32_t number, ByteSpan bytes) {
    c.send(dissociated::write_prefix(dissociated::MessageType::kMetadata, number), bytes);
  }
  void schema(transport::Connection& c, std::uint32_t number = 0) {
    metadata(c, number, encoder.schema(*batch.schema));
  }
  void record_batch(transport::Connection& c, std::uint32_t number = 1) {
    metadata(c, number, encoder.record_batch(batch));
  }
  void body(transport::Connection& c, std::uint32_t number = 1) {
    std::vector<std::byte> bytes;
    dissociated::write_remote_body(remote, &bytes);
    store_le(bytes.data(), load_le<std::uint64_t>(bytes.data()) + too_much);
    c.send_tagged(dissociated::write_tag(number, dissociated::BodyType::kRemote), bytes, {});
  }
  static void end(transport::Connection& c, std::uint32_t number) {
    c.send(dissociated::write_prefix(dissociated::MessageType::kEndOfStream, number), {});
  }
};

/// What a client that reads "table" to the end says of such a server: the error's name, or "well".
inline std::string outcome_of(const FakeServer& server, const ClientOptions& of_client = {},
                              const GetOptions& options = {}) {
  try {
    Client client(server.uri(), of_client);
    const auto reader = client.get("table", options);
    while (const auto batch = reader->next()) {
      for (std::int64_t row = 0; row < batch->num_rows; ++row) {
        if (!options.columns) testing::text_at(*batch, row);
        testing::number_at(*batch, row);
      }
    }
  } catch (const Error& error) {
    return std::string(error_name(error.code()));
  }
  return "well";
}

}  // namespace crossdock::session
