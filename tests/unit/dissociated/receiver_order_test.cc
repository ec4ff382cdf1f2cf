#include <algorithm>
#include <random>

#include "crossdock/core/error.h"
#include "dissociated/receiver.h"
#include "dissociated/sender.h"
#include "stream_support.h"

/// Sender and Receiver joined by a network that delivers in any order, cuts off anywhere and sends anything: seeded, so
/// that a failure can be had again.
namespace crossdock::dissociated {
namespace {

struct Sent {
  bool tagged = false;
  std::uint64_t tag = 0;
  std::vector<std::byte> bytes;
};

/// A whole stream, as a Sender numbers it: `batches` after the schema, with type 1 bodies that tell their number.
std::vector<Sent> stream(StreamMaker& make, std::uint32_t start, std::uint32_t batches) {
  Sender sender(1, 2, {true, true, true});
  std::vector<Freed> freed;
  sender.on_tagged(1, {}, &freed);
  std::vector<Sent> out;
  const auto add = [&](const std::vector<std::byte>& message) {
    Sent sent{false, 0, message};
    const PrefixBytes prefix = sender.next_message();
    std::copy(prefix.begin(), prefix.end(), sent.bytes.begin());
    out.push_back(std::move(sent));
  };
  if (start == 0) {
    add(make.schema());
  } else {
    sender.set_next_sequence(start);
  }
  for (std::uint32_t i = 0; i < batches; ++i) {
    add(i % 7 == 3 ? make.dictionary(0) : make.batch(0));
    const std::uint64_t tag = sender.body_tag(BodyType::kRemote);
    out.push_back({true, tag, StreamMaker::remote(static_cast<std::uint32_t>(tag))});
  }
  const PrefixBytes end = sender.end_of_stream();
  out.push_back({false, 0, {end.begin(), end.end()}});
  return out;
}

void deliver(Receiver& receiver, const Sent& sent) {
  if (sent.tagged) {
    receiver.on_tagged(sent.tag, sent.bytes);
  } else {
    receiver.on_untagged(sent.bytes);
  }
}

/// Takes what can be taken and checks that it is in order and whole. Returns how many items came.
std::uint32_t drain(Receiver& receiver, std::uint32_t* next) {
  std::uint32_t taken = 0;
  while (const Receiver::Item* item = receiver.next()) {
    EXPECT_EQ(item->sequence, *next);
    ++*next;
    ++taken;
    if (item->kind == Receiver::Item::Kind::kMessage && item->message->has_body()) {
      const std::vector<std::byte> expected = StreamMaker::remote(item->sequence);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), item->body.begin(), item->body.end()));
    }
  }
  return taken;
}

class AnyOrder : public ::testing::TestWithParam<unsigned> {
 protected:
  std::uint32_t below(std::size_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  std::mt19937 random_{GetParam()};
  StreamMaker make_;
};

TEST_P(AnyOrder, ComesOutInOrder) {
  const std::uint32_t start = GetParam() % 2 == 0 ? 0 : 0xFFFFFFFF - below(40);
  const std::uint32_t batches = below(60);
  std::vector<Sent> sent = stream(make_, start, batches);
  std::shuffle(sent.begin(), sent.end(), random_);
  Receiver receiver;
  if (start != 0) receiver.set_next_sequence(start);
  std::uint32_t next = start;
  std::uint32_t taken = 0;
  for (const Sent& message : sent) {
    EXPECT_FALSE(receiver.finished());
    deliver(receiver, message);
    if (below(3) != 0) taken += drain(receiver, &next);
  }
  taken += drain(receiver, &next);
  EXPECT_TRUE(receiver.finished());
  EXPECT_EQ(taken, batches + (start == 0 ? 2 : 1));
}

TEST_P(AnyOrder, LosingAnyOneMessageIsATruncatedStreamAndNeverAShorterOne) {
  std::vector<Sent> sent = stream(make_, 0, 1 + below(20));
  std::shuffle(sent.begin(), sent.end(), random_);
  sent.erase(sent.begin() + static_cast<std::ptrdiff_t>(below(sent.size())));
  Receiver receiver;
  for (const Sent& message : sent) deliver(receiver, message);
  receiver.on_disconnected();
  std::uint32_t next = 0;
  EXPECT_THROW(drain(receiver, &next), TruncatedStreamError);
  EXPECT_FALSE(receiver.finished());
}

TEST_P(AnyOrder, ACutOffStreamIsTruncatedWhereItWasCut) {
  std::vector<Sent> sent = stream(make_, 0, 1 + below(20));
  sent.resize(below(sent.size()));
  Receiver receiver;
  for (const Sent& message : sent) deliver(receiver, message);
  receiver.on_disconnected();
  std::uint32_t next = 0;
  EXPECT_THROW(drain(receiver, &next), TruncatedStreamError);
  // The schema is one message, each batch two: what is whole came out.
  EXPECT_EQ(next, sent.empty() ? 0 : 1 + (sent.size() - 1) / 2);
}

TEST_P(AnyOrder, RepeatingAnyOneMessageIsAProtocolError) {
  std::vector<Sent> sent = stream(make_, 0, 1 + below(20));
  sent.push_back(sent[below(sent.size())]);
  std::shuffle(sent.begin(), sent.end(), random_);
  Receiver receiver;
  std::uint32_t next = 0;
  const bool eager = below(2) == 0;
  EXPECT_THROW(
      {
        for (const Sent& message : sent) {
          deliver(receiver, message);
          if (eager) drain(receiver, &next);
        }
      },
      ProtocolError);
}

TEST_P(AnyOrder, DamagedMessagesGiveErrorsOnly) {
  for (int round = 0; round < 20; ++round) {
    std::vector<Sent> sent = stream(make_, 0, 1 + below(5));
    for (Sent& message : sent) {
      if (below(3) != 0 || message.bytes.empty()) continue;
      message.bytes[below(message.bytes.size())] ^= static_cast<std::byte>(1 + below(255));
      if (below(4) == 0) message.bytes.resize(below(message.bytes.size()));
      if (below(4) == 0) message.tag ^= std::uint64_t{1} << (below(64));
    }
    std::shuffle(sent.begin(), sent.end(), random_);
    Receiver receiver;
    try {
      for (const Sent& message : sent) deliver(receiver, message);
      receiver.on_disconnected();
      while (receiver.next() != nullptr) continue;
    } catch (const Error&) {
      continue;
    }
    EXPECT_TRUE(receiver.finished());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyOrder, ::testing::Range(0u, 100u));

}  // namespace
}  // namespace crossdock::dissociated
