#include "session/observe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <stdexcept>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "transport/memory.h"

namespace crossdock::session {
namespace {

using dissociated::MessageType;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::number_at;
using testing::number_stream;
using ::testing::StartsWith;

constexpr std::uint64_t kWantData = 17;
constexpr std::uint64_t kFreeData = 18;

// ---- one message ----

WireMessage decoded(Direction direction, std::optional<std::uint64_t> tag, ByteSpan bytes) {
  transport::Agreement agreement;
  agreement.want_data = kWantData;
  agreement.free_data = kFreeData;
  return decode_wire({direction, tag.has_value(), tag.value_or(0), bytes, agreement});
}
std::string line(Direction direction, std::optional<std::uint64_t> tag, ByteSpan bytes) {
  return to_text(decoded(direction, tag, bytes));
}
std::vector<std::byte> untagged(MessageType type, std::uint32_t number, ByteSpan rest = {}) {
  const dissociated::PrefixBytes prefix = dissociated::write_prefix(type, number);
  std::vector<std::byte> out(prefix.begin(), prefix.end());
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

TEST(DecodeWire, RequestsAndWhatIsGivenBack) {
  EXPECT_EQ(line(Direction::kSent, kWantData, as_bytes("fli\nghts")), "-> tagged    want_data  ticket 'fli\\nghts'");
  const std::uint64_t addresses[] = {0x40, 0x80, 0x10000000000c0};
  EXPECT_EQ(line(Direction::kSent, kFreeData, std::as_bytes(std::span(addresses))),
            "-> tagged    free_data  3 addresses: 0x40, 0x80, 0x10000000000c0");
  EXPECT_EQ(line(Direction::kSent, std::nullopt, untagged(MessageType::kEndOfStream, 0)),
            "-> untagged  type 0  cancel");
}

TEST(DecodeWire, MetadataAndBodies) {
  ipc::Encoder encoder;
  auto batch = testing::number_batch(0, 3);
  batch.custom_metadata = {{"k", "v"}};
  EXPECT_EQ(line(Direction::kReceived, std::nullopt,
                 untagged(MessageType::kMetadata, 4294967295u, encoder.schema(*batch.schema))),
            "<- untagged  type 1  number 4294967295  metadata  schema: 2 fields, V5");
  EXPECT_THAT(
      line(Direction::kReceived, std::nullopt, untagged(MessageType::kMetadata, 0, encoder.record_batch(batch))),
      MatchesRegex("<- untagged  type 1  number 0  metadata  record batch: 3 rows, 2 nodes, 5 buffers, body "
                   "[0-9]+ bytes, V5, custom metadata 1"));
  EXPECT_THAT(line(Direction::kReceived, std::nullopt,
                   untagged(MessageType::kMetadata, 1, encoder.dictionary_batch(batch, 5, true))),
              HasSubstr("dictionary 5 (delta): 3 rows"));

  std::vector<std::byte> body;
  dissociated::write_remote_body(
      std::vector<dissociated::RemoteBuffer>{{0, 0}, {0x40, 24}, {0, 0}, {0x80, 16}, {0xc0, 5}}, &body);
  const WireMessage message =
      decoded(Direction::kReceived, dissociated::write_tag(7, dissociated::BodyType::kRemote), body);
  EXPECT_EQ(message.sequence, 7u);
  EXPECT_EQ(message.n_buffers, 5u);
  EXPECT_EQ(message.total, 45u);
  EXPECT_EQ(to_text(message),
            "<- tagged    number 7  body  type 1 (addresses): total 45, nbuf 5: 0x0+0, 0x40+24, 0x0+0, 0x80+16 and 1 "
            "more");
  EXPECT_EQ(line(Direction::kReceived, 7, body), "<- tagged    number 7  body  type 0 (bytes): 96 bytes");
  EXPECT_EQ(line(Direction::kReceived, 7, {}), "<- tagged    number 7  body  type 0 (bytes): 0 bytes");
}

TEST(DecodeWire, EndsOfStreams) {
  EXPECT_EQ(line(Direction::kReceived, std::nullopt, untagged(MessageType::kEndOfStream, 9)),
            "<- untagged  type 0  number 9  End of Stream");
  EXPECT_EQ(
      line(Direction::kReceived, std::nullopt, untagged(MessageType::kError, 9, as_bytes("RemoteError: \x1b[31mred"))),
      "<- untagged  type 255  number 9  error  RemoteError: \\x1b[31mred");
}

TEST(DecodeWire, MalformedMessagesAreShownAndNotThrown) {
  EXPECT_THAT(line(Direction::kReceived, std::nullopt, as_bytes("\x01")),
              StartsWith("<- untagged  malformed  1 byte: an untagged message has 1 bytes"));
  EXPECT_THAT(line(Direction::kReceived, std::nullopt, untagged(MessageType::kEndOfStream, 1, as_bytes("x"))),
              HasSubstr("malformed  6 bytes: "));
  EXPECT_THAT(line(Direction::kReceived, std::nullopt, untagged(MessageType::kMetadata, 1, as_bytes("nonsense"))),
              HasSubstr("number 1  metadata  malformed: the metadata: "));
  EXPECT_THAT(line(Direction::kReceived, 1ull << 40, {}), HasSubstr("malformed  tag 0x10000000000  0 bytes: "));
  EXPECT_THAT(line(Direction::kReceived, 1ull << 56, as_bytes("short")), HasSubstr("malformed  tag "));
  EXPECT_THAT(line(Direction::kSent, kFreeData, as_bytes("short")), HasSubstr("not a multiple of 8"));
  EXPECT_THAT(line(Direction::kSent, 3, {}), HasSubstr("neither want_data nor free_data"));
  EXPECT_EQ(decoded(Direction::kSent, 3, {}).kind, WireKind::kBad);
}

// ---- a stream ----

class ObserveTest : public testing::NoLeftovers {
 protected:
  void use(bool shares_memory) {
    auto made = std::make_shared<transport::TransportRegistry>();
    made->add(transport::make_memory_transport(
        {.ways = shares_memory ? transport::Way::kMap | transport::Way::kMessage : transport::Way::kMessage}));
    transports_ = made;
  }
  ServerOptions server_options() const {
    ServerOptions options;
    options.transports = transports_;
    options.uris = {"memory:"};
    return options;
  }
  ClientOptions client_options() const {
    ClientOptions options;
    options.transports = transports_;
    return options;
  }
  GetOptions watching() {
    GetOptions options;
    options.on_message = [this](const WireEvent& event) {
      const WireMessage message = decode_wire(event);
      const std::lock_guard lock(mutex_);
      messages_.push_back(message);
    };
    return options;
  }
  std::vector<WireKind> kinds() {
    const std::lock_guard lock(mutex_);
    std::vector<WireKind> out;
    for (const WireMessage& message : messages_) out.push_back(message.kind);
    return out;
  }

  std::shared_ptr<const transport::TransportRegistry> transports_;
  std::mutex mutex_;
  std::vector<WireMessage> messages_;
};

TEST_F(ObserveTest, SeesEveryMessageInItsOrder) {
  use(true);
  Server server(server_options());
  server.publish("numbers", Source::table(number_stream(1, 3)));
  Client client(server.uri(), client_options());
  const auto reader = client.get("numbers", watching());
  EXPECT_TRUE(reader->next());  // and dropped
  EXPECT_FALSE(reader->next());
  EXPECT_THAT(kinds(), ::testing::ElementsAre(WireKind::kWantData, WireKind::kMetadata, WireKind::kMetadata,
                                              WireKind::kBody, WireKind::kFreeData, WireKind::kEndOfStream));
  EXPECT_EQ(messages_[3].body_type, dissociated::BodyType::kRemote);
  EXPECT_EQ(messages_[4].n_buffers, 3u);

  // The connection is used again by who doesn't look on.
  client.get("numbers")->next();
  EXPECT_EQ(kinds().size(), 6u);
}

TEST_F(ObserveTest, SeesWhatIsGivenBackAfterTheEnd) {
  use(true);
  Server server(server_options());
  server.publish("numbers", Source::table(number_stream(1, 3)));
  Client client(server.uri(), client_options());
  std::optional<array::RecordBatch> kept;
  {
    const auto reader = client.get("numbers", watching());
    kept = reader->next();
    EXPECT_FALSE(reader->next());
  }
  EXPECT_EQ(kinds().back(), WireKind::kEndOfStream);
  kept.reset();
  EXPECT_EQ(kinds().back(), WireKind::kFreeData);
}

TEST_F(ObserveTest, SeesBodiesByValueAndACancel) {
  use(false);
  Server server(server_options());
  server.publish("numbers", Source::table(number_stream(3, 3)));
  Client client(server.uri(), client_options());
  const auto reader = client.get("numbers", watching());
  EXPECT_TRUE(reader->next());
  reader->close();
  EXPECT_THAT(kinds(), ::testing::ElementsAre(WireKind::kWantData, WireKind::kMetadata, WireKind::kMetadata,
                                              WireKind::kBody, WireKind::kCancel));
  EXPECT_EQ(messages_[3].body_type, dissociated::BodyType::kPacked);
  EXPECT_EQ(static_cast<std::int64_t>(messages_[3].size), messages_[2].message->body_length);
}

TEST_F(ObserveTest, TellsTwoConnectionsApart) {
  use(true);
  Server server(server_options());
  server.publish("numbers", Source::table(number_stream(1, 3)));
  Client client(server.uri(), server.uri(), client_options());
  const auto reader = client.get("numbers", watching());
  EXPECT_TRUE(reader->next());
  EXPECT_FALSE(reader->next());
  for (const WireMessage& message : messages_) {
    if (message.kind == WireKind::kWantData) continue;  // to each
    const bool is_data = message.kind == WireKind::kBody || message.kind == WireKind::kFreeData;
    EXPECT_EQ(message.role, is_data ? ChannelRole::kData : ChannelRole::kMetadata) << to_text(message);
    EXPECT_THAT(to_text(message), HasSubstr(is_data ? " data connection " : " metadata connection "));
  }
  EXPECT_EQ(messages_.size(), 7u);
}

TEST_F(ObserveTest, WhoThrowsWhileLookingOnDisturbsNothing) {
  use(true);
  Server server(server_options());
  server.publish("numbers", Source::table(number_stream(2, 3)));
  Client client(server.uri(), client_options());
  GetOptions options;
  options.on_message = [](const WireEvent&) { throw std::runtime_error("no"); };
  const auto reader = client.get("numbers", options);
  EXPECT_TRUE(reader->next());
  EXPECT_EQ(number_at(reader->next().value(), 0), 3);
  EXPECT_FALSE(reader->next());
}

TEST_F(ObserveTest, BatchesAreShownWithWhereTheyAre) {
  for (const bool shares_memory : {true, false}) {
    use(shares_memory);
    Server server(server_options());
    server.publish("numbers", Source::table(number_stream(2, 3)));
    Client client(server.uri(), client_options());
    GetOptions options;
    std::vector<std::uint32_t> numbers;
    options.on_batch = [&](const BatchArrival& arrival) {
      numbers.push_back(arrival.sequence);
      const ipc::BatchDescription batch = ipc::describe_batch(arrival.metadata, arrival.schema, {}, "the test");
      EXPECT_EQ(batch.message.num_rows, 3);
      EXPECT_EQ(arrival.body_type == dissociated::BodyType::kRemote, shares_memory);
      EXPECT_EQ(arrival.remote.size(), shares_memory ? batch.buffers.size() : 0u);
      for (std::size_t i = 0; i < arrival.remote.size(); ++i) {
        EXPECT_EQ(static_cast<std::int64_t>(arrival.remote[i].length), batch.buffers[i].range.length);
      }
      if (!shares_memory) {
        EXPECT_EQ(static_cast<std::int64_t>(arrival.body.size()), batch.message.body_length);
      }
    };
    const auto reader = client.get("numbers", options);
    while (reader->next()) {
    }
    EXPECT_THAT(numbers, ::testing::ElementsAre(1u, 2u));
  }
}

TEST_F(ObserveTest, WhatTheBatchesObserverThrowsEndsTheStream) {
  use(true);
  Server server(server_options());
  server.publish("numbers", Source::table(number_stream(2, 3)));
  Client client(server.uri(), client_options());
  GetOptions options;
  options.on_batch = [](const BatchArrival&) { throw InvalidArgumentError("enough"); };
  const auto reader = client.get("numbers", options);
  EXPECT_THROW(reader->next(), InvalidArgumentError);
  EXPECT_TRUE(reader->closed());
  EXPECT_THROW(reader->next(), InvalidArgumentError);
}

}  // namespace
}  // namespace crossdock::session
