// What a reader makes of bytes, good and bad, and a writer of messages: over a stream made up by the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>

#include "crossdock/core/error.h"
#include "device/region.h"
#include "support/failing_allocations.h"
#include "support/temporary_folder.h"
#include "transport/net/frame_reader.h"
#include "transport/net/frame_writer.h"

namespace crossdock::transport::net {
namespace {

/// Bytes that are read as many at a time as told, and written likewise.
class FakeStream final : public ByteStream {
 public:
  IoResult read(std::span<const iovec> parts) override {
    if (input.empty()) return ended ? IoResult{IoResult::State::kEnd} : IoResult{};
    std::size_t left = std::min(at_once, input.size());
    IoResult moved{IoResult::State::kBytes};
    for (const iovec& part : parts) {
      const std::size_t n = std::min(left, part.iov_len);
      std::copy_n(input.begin(), n, static_cast<std::byte*>(part.iov_base));
      input.erase(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(n));
      moved.bytes += n;
      left -= n;
    }
    return moved;
  }
  IoResult write(std::span<const iovec> parts) override {
    ++writes;
    if (ended) return {IoResult::State::kEnd};
    if (room == 0) return {};
    IoResult moved{IoResult::State::kBytes};
    for (const iovec& part : parts) {
      const std::size_t n = std::min(room, part.iov_len);
      const auto* from = static_cast<const std::byte*>(part.iov_base);
      output.insert(output.end(), from, from + n);
      room -= n;
      moved.bytes += n;
    }
    return moved;
  }
  void give(std::span<const std::byte> bytes) { input.insert(input.end(), bytes.begin(), bytes.end()); }

  std::deque<std::byte> input;
  std::vector<std::byte> output;
  std::size_t at_once = SIZE_MAX;
  std::size_t room = SIZE_MAX;
  bool ended = false;
  int writes = 0;
};

struct Heard final : ControlFrames {
  void taken(std::uint64_t messages) override { takes.push_back(messages); }
  void window(std::uint64_t messages) override { windows.push_back(messages); }
  void goodbye() override { ++goodbyes; }
  void beside(FrameKind, std::uint64_t, ByteSpan) override { FAIL() << "a tcp stream has no such frames"; }
  std::vector<std::uint64_t> takes, windows;
  int goodbyes = 0;
};

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  unsigned state = seed * 2654435761U + 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

/// A frame as the specification has it. With checksums those are right, whatever else is wrong.
std::vector<std::byte> frame(Checksums checksums, std::uint64_t kind, std::uint64_t tag, std::uint64_t length,
                             std::span<const std::byte> payload = {}) {
  std::vector<std::byte> bytes(kHeaderBytes);
  store_le(&bytes[0], kind);
  store_le(&bytes[8], tag);
  store_le(&bytes[16], length);
  if (checksums == Checksums::kEach) store_le(&bytes[4], crc32c(bytes));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  if (payload.empty()) return bytes;
  if (checksums == Checksums::kNone) {
    bytes.resize(align_up(bytes.size(), 8));
  } else {
    bytes.resize(align_up(bytes.size() + 4, 8) - 4);
    const std::uint32_t checksum = crc32c(ByteSpan(bytes).subspan(kHeaderBytes));
    bytes.resize(bytes.size() + 4);
    store_le(&bytes[bytes.size() - 4], checksum);
  }
  return bytes;
}

struct Message {
  bool tagged;
  std::uint64_t tag;
  bool owned;
  std::vector<std::byte> bytes;
  bool operator==(const Message&) const = default;
};

class Frames : public ::testing::TestWithParam<Checksums> {
 protected:
  static std::vector<std::byte> frame(std::uint64_t kind, std::uint64_t tag, std::uint64_t length,
                                      std::span<const std::byte> payload = {}) {
    return net::frame(GetParam(), kind, tag, length, payload);
  }
  std::unique_ptr<FrameReader> reader() {
    return std::make_unique<FrameReader>(
        stream_, heard_,
        ReadLimits{
            .max_message = 100'000, .max_body = 1'000'000, .body_memory = make_body_pool(), .checksums = GetParam()},
        where_);
  }
  static std::optional<Message> next(FrameReader& reader) {
    const auto in = reader.receive();
    if (!in) return std::nullopt;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(in->bytes.data()) % (in->owner ? 64 : 8), 0u);
    return Message{in->tagged, in->tag, static_cast<bool>(in->owner), {in->bytes.begin(), in->bytes.end()}};
  }
  /// A bit of everything, and what should come of it.
  void make_sample() {
    unsigned seed = 0;
    for (const std::size_t size : {0u, 1u, 4u, 8u, 600u, 20'000u, 70'000u, 99'997u, 5u}) {
      for (const std::uint64_t kind : {1u, 2u, 3u}) {
        const auto payload = pattern(size, ++seed);
        const std::uint64_t tag = kind == 1 ? 0 : ~std::uint64_t{size};
        const auto bytes = frame(kind, tag, size, payload);
        sample_.insert(sample_.end(), bytes.begin(), bytes.end());
        expected_.push_back({kind != 1, tag, kind == 3, payload});
      }
      const auto control = frame(seed % 2 == 0 ? 4 : 5, seed, 0);
      sample_.insert(sample_.end(), control.begin(), control.end());
    }
  }

  const std::string where_ = "tcp://test:1";
  FakeStream stream_;
  Heard heard_;
  std::vector<std::byte> sample_;
  std::vector<Message> expected_;
};

TEST_P(Frames, AnyPiecesGiveTheSameMessages) {
  make_sample();
  for (const std::size_t at_once : {std::size_t{1}, std::size_t{7}, std::size_t{24}, std::size_t{1000},
                                    std::size_t{4096}, std::size_t{65'536}, SIZE_MAX}) {
    heard_ = {};
    stream_.at_once = at_once;
    stream_.give(sample_);
    const auto reading = reader();
    std::vector<Message> got;
    for (int idle = 0; got.size() < expected_.size() && idle < 1'000'000; ++idle) {
      if (auto message = next(*reading)) got.push_back(*std::move(message));
    }
    EXPECT_EQ(got, expected_) << at_once;
    do {
      EXPECT_FALSE(next(*reading));
    } while (!stream_.input.empty());
    EXPECT_EQ(heard_.takes.size() + heard_.windows.size(), 9u);
    EXPECT_FALSE(reading->in_message());
  }
}

TEST_P(Frames, TruncatedAtEachByteItIsAnEndInAMessage) {
  const auto whole = frame(2, 7, 21, pattern(21, 1));
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    stream_ = {};
    stream_.give(std::span(whole).first(cut));
    stream_.ended = true;
    const auto reading = reader();
    EXPECT_FALSE(next(*reading)) << cut;
    EXPECT_FALSE(next(*reading)) << cut;
    ASSERT_TRUE(reading->ended()) << cut;
    EXPECT_EQ(reading->in_message(), cut != 0) << cut;
  }
}

TEST_P(Frames, ABodyCutShortIsAnEndInAMessage) {
  const auto whole = frame(3, 7, 100'000, pattern(100'000, 1));
  stream_.give(std::span(whole).first(60'000));
  stream_.ended = true;
  const auto reading = reader();
  while (!reading->ended()) EXPECT_FALSE(next(*reading));
  EXPECT_TRUE(reading->in_message());
}

TEST_P(Frames, WhatIsNoFrameIsAnError) {
  const std::vector<std::vector<std::byte>> bad = {
      frame(0, 0, 0),          frame(7, 0, 0),
      frame(0x100 | 1, 0, 0),  frame(1ull << 31 | 2, 0, 0),
      frame(1, 5, 0),          frame(4, 1, 8),
      frame(5, 1, 1),          frame(6, 1, 0),
      frame(6, 0, 1),          frame(1, 0, 100'001),
      frame(2, 0, UINT64_MAX), frame(3, 0, 1'000'001),
      frame(3, 0, UINT64_MAX), frame(3, 0, UINT64_MAX - 7),
      pattern(4096, 3),
  };
  for (const auto& bytes : bad) {
    stream_ = {};
    stream_.give(bytes);
    const auto reading = reader();
    EXPECT_THROW(reading->receive(), ProtocolError);
  }
}

TEST_P(Frames, NothingMayFollowAGoodbye) {
  stream_.give(frame(6, 0, 0));
  const auto reading = reader();
  EXPECT_FALSE(reading->receive());
  EXPECT_EQ(heard_.goodbyes, 1);
  stream_.give(frame(1, 0, 0));
  EXPECT_THROW(reading->receive(), ProtocolError);
}

TEST_P(Frames, AFloodIsReadInTurns) {
  const auto control = frame(4, 1, 0);
  constexpr std::size_t kFrames = 300'000;
  for (std::size_t i = 0; i < kFrames; ++i) stream_.give(control);
  const auto reading = reader();
  EXPECT_FALSE(reading->receive());
  EXPECT_LT(heard_.takes.size(), kFrames);
  EXPECT_TRUE(reading->has_more());
}

TEST_P(Frames, ABodyIsReadIntoPlaceBehindItsHeader) {
  const auto body = pattern(500'000, 1);
  stream_.at_once = 70'000;
  stream_.give(frame(3, 1, body.size(), body));
  const auto reading = reader();
  std::optional<Message> got;
  for (int i = 0; i < 20 && !got; ++i) got = next(*reading);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->bytes, body);
}

// --- writing ---

TEST_P(Frames, WhatIsWrittenIsReadHoweverLittleGoesAtOnce) {
  for (const std::size_t room : {std::size_t{1}, std::size_t{5}, std::size_t{24}, std::size_t{333}, SIZE_MAX}) {
    stream_ = {};
    FrameWriter writer(stream_, 1 << 20, GetParam());
    const auto head = pattern(13, 1);
    const auto tail = pattern(100, 2);
    auto body = std::make_shared<const std::vector<std::byte>>(pattern(999, 3));
    const std::weak_ptr<const std::vector<std::byte>> watched = body;
    const auto expected_body = *body;
    std::vector<ByteSpan> parts;
    for (std::size_t at = 0; at < 999; at += 3) parts.push_back(ByteSpan(*body).subspan(at, 3));
    stream_.room = room;
    ASSERT_TRUE(writer.send(FrameKind::kMessage, 0, head, tail));
    writer.taken(5, false);
    stream_.room = room;
    ASSERT_TRUE(writer.send_body(9, parts, 999, std::move(body)));
    int pushes = 0;
    do {
      stream_.room = room;
      ASSERT_LT(++pushes, 10'000);
    } while (!writer.push());
    EXPECT_TRUE(watched.expired());
    ASSERT_TRUE(writer.send(FrameKind::kTagged, 8, {}, tail) || room != SIZE_MAX);
    stream_.room = SIZE_MAX;
    EXPECT_TRUE(writer.push());
    stream_.give(stream_.output);
    const auto reading = reader();
    auto whole = head;
    whole.insert(whole.end(), tail.begin(), tail.end());
    EXPECT_EQ(next(*reading), (Message{false, 0, false, whole}));
    EXPECT_EQ(next(*reading), (Message{true, 9, true, expected_body}));
    EXPECT_EQ(next(*reading), (Message{true, 8, false, tail}));
    EXPECT_EQ(heard_.takes.back(), 5u);
  }
}

TEST_P(Frames, WithoutMemoryNothingIsSentOfAFrame) {
  const auto small = pattern(100, 1);
  const auto large = pattern(3000, 2);
  const std::vector<ByteSpan> parts = {small, large};
  // Each a call that wants memory, on a stream that takes a part of what it is given.
  const std::vector<std::function<bool(FrameWriter&)>> calls = {
      [&](FrameWriter& w) { return w.send(FrameKind::kMessage, 0, small, large); },
      [&](FrameWriter& w) { return w.send(FrameKind::kTagged, 7, large, small, true); },
      [&](FrameWriter& w) { return w.send_body(9, parts, 3100, nullptr); },
      [&](FrameWriter& w) { return w.taken(5, true), true; },
      [&](FrameWriter& w) { return w.window(6, true), true; },
      [&](FrameWriter& w) { return w.goodbye(), true; },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (const std::size_t room : {std::size_t{0}, std::size_t{30}, std::size_t{2000}}) {
      for (const std::uint64_t due : {0, 4}) {  // what else is to be told
        stream_.output.clear();
        stream_.output.reserve(1 << 16);  // the stream's own memory isn't meant
        stream_.room = room;
        FrameWriter writer(stream_, 1 << 20, GetParam());
        if (due > 0) writer.taken(due, false);
        int failed = 0;
        for (bool done = false; !done;) {
          const std::vector<std::byte> before = stream_.output;
          const testing::FailingAllocations failing(testing::Whose::kMine, failed, 1);
          try {
            done = calls[i](writer);
            ASSERT_TRUE(done);
          } catch (const std::bad_alloc&) {
            ++failed;
            ASSERT_EQ(stream_.output, before) << "call " << i << " with room for " << room;
            ASSERT_LT(failed, 10);
          }
        }
        stream_.room = SIZE_MAX;
        ASSERT_TRUE(writer.push());
        stream_.input.assign(stream_.output.begin(), stream_.output.end());
        heard_ = {};
        const auto in = reader();
        std::vector<Message> messages;
        while (auto message = next(*in)) messages.push_back(*std::move(message));
        EXPECT_FALSE(in->in_message()) << "call " << i << " with room for " << room;
        EXPECT_EQ(messages.size(), i < 3 ? 1u : 0u);
        EXPECT_EQ(writer.sent(), messages.size());
        EXPECT_EQ(heard_.takes.size() + heard_.windows.size() + static_cast<std::size_t>(heard_.goodbyes),
                  (due > 0 && i != 3 && i != 5 ? 1u : 0u) + (i < 3 ? 0u : 1u));
      }
    }
  }
}

TEST_P(Frames, AFullStreamMeansNoRoomInTheEnd) {
  FrameWriter writer(stream_, 1000, GetParam());
  stream_.room = 0;
  const auto bytes = pattern(100, 1);
  int sent = 0;
  while (writer.send(FrameKind::kMessage, 0, bytes, {})) ASSERT_LT(++sent, 100);
  EXPECT_GE(sent, 5);
  EXPECT_EQ(writer.sent(), static_cast<std::uint64_t>(sent));
  EXPECT_FALSE(writer.room_came());
  stream_.room = SIZE_MAX;
  EXPECT_TRUE(writer.push());
  EXPECT_TRUE(writer.room_came());
  EXPECT_TRUE(writer.room_came()) << "until its owner's next turn";
  EXPECT_TRUE(writer.send(FrameKind::kMessage, 0, bytes, {}));
  writer.forget_refusals();
  EXPECT_FALSE(writer.room_came());
}

TEST_P(Frames, ARefusalAfterItsOwnerWasToldOfRoomIsToldAnew) {
  FrameWriter writer(stream_, 1000, GetParam());
  const auto bytes = pattern(100, 1);
  const auto fill = [&] {
    stream_.room = 0;
    for (int sent = 0; writer.send(FrameKind::kMessage, 0, bytes, {});) ASSERT_LT(++sent, 100);
    EXPECT_FALSE(writer.room_came());
  };
  const auto empty = [&] {
    stream_.room = SIZE_MAX;
    EXPECT_TRUE(writer.push());
  };
  fill();
  empty();
  EXPECT_TRUE(writer.room_came());
  fill();
  empty();  // before the owner's next turn
  writer.forget_refusals();
  EXPECT_TRUE(writer.room_came());
  writer.forget_refusals();
  EXPECT_FALSE(writer.room_came());
}

TEST_P(Frames, WhileABodyIsOnItsWayNothingElseIsTaken) {
  FrameWriter writer(stream_, 1000, GetParam());
  const auto body = pattern(10'000, 1);
  const std::vector<ByteSpan> parts = {body};
  stream_.room = 100;
  ASSERT_TRUE(writer.send_body(1, parts, body.size(), nullptr));
  EXPECT_FALSE(writer.send(FrameKind::kMessage, 0, {}, {}));
  EXPECT_FALSE(writer.send_body(2, parts, body.size(), nullptr));
  writer.taken(3, true);
  stream_.room = SIZE_MAX;
  EXPECT_TRUE(writer.push());
  stream_.give(stream_.output);
  const auto reading = reader();
  EXPECT_EQ(next(*reading), (Message{true, 1, true, body}));
  EXPECT_FALSE(next(*reading));
  EXPECT_EQ(heard_.takes, std::vector<std::uint64_t>{3}) << "told once the body was out";
}

TEST_P(Frames, OneWriteCarriesAMessageAndWhatIsDue) {
  FrameWriter writer(stream_, 1000, GetParam());
  writer.taken(1, false);
  writer.window(8, false);
  EXPECT_EQ(stream_.writes, 0);
  ASSERT_TRUE(writer.send(FrameKind::kMessage, 0, pattern(3, 1), pattern(4, 2)));
  EXPECT_EQ(stream_.writes, 1);
  writer.window(8, true);
  writer.taken(1, true);
  EXPECT_EQ(stream_.writes, 1) << "the peer knows";
}

TEST_P(Frames, AnEndedStreamTakesNothingAndLetsGoOfTheBody) {
  FrameWriter writer(stream_, 1000, GetParam());
  auto body = std::make_shared<const std::vector<std::byte>>(pattern(999, 3));
  const std::weak_ptr<const std::vector<std::byte>> watched = body;
  const std::vector<ByteSpan> parts = {*body};
  stream_.room = 10;
  ASSERT_TRUE(writer.send_body(1, parts, 999, std::move(body)));
  stream_.ended = true;
  EXPECT_TRUE(writer.push());
  EXPECT_TRUE(writer.ended());
  EXPECT_TRUE(watched.expired());
  EXPECT_FALSE(writer.send_body(1, {}, 0, nullptr));
}

TEST_P(Frames, ALargeBodyOfManyPartsIsReadAsItWasWritten) {
  const auto body = pattern(900'001, 4);
  std::vector<ByteSpan> parts;
  for (std::size_t at = 0, size = 1; at < body.size(); at += size, size = size * 3 % 200'003 + 1) {
    parts.push_back(ByteSpan(body).subspan(at, std::min(size, body.size() - at)));
    parts.push_back({});
  }
  for (const std::size_t room : {std::size_t{50'000}, std::size_t{262'143}, std::size_t{262'168}, SIZE_MAX}) {
    stream_ = {};
    stream_.room = room;
    FrameWriter writer(stream_, 1 << 20, GetParam());
    ASSERT_TRUE(writer.send_body(9, parts, body.size(), nullptr));
    do {
      stream_.room = room;
    } while (!writer.push());
    EXPECT_EQ(stream_.output, frame(3, 9, body.size(), body));
    stream_.give(stream_.output);
    const auto reading = reader();
    std::optional<Message> got;
    while (!got && !stream_.input.empty()) got = next(*reading);
    EXPECT_EQ(got, (Message{true, 9, true, body}));
  }
}

INSTANTIATE_TEST_SUITE_P(Without, Frames, ::testing::Values(Checksums::kNone));
INSTANTIATE_TEST_SUITE_P(WithChecksums, Frames, ::testing::Values(Checksums::kEach));

// --- bodies in files ---

/// A body of many parts, some in a file that others can write to; the rest in memory of this process. The stream reads
/// memory in this process, as TLS does.
class BodyInAFile : public ::testing::TestWithParam<Checksums> {
 protected:
  BodyInAFile() : body_(pattern(900'001, 4)) {
    write(body_);
    file_ = device::Region::open_file(path_);
    for (std::size_t at = 0, size = 1, i = 0; at < body_.size(); at += size, size = size * 3 % 200'003 + 1, ++i) {
      const std::size_t length = std::min(size, body_.size() - at);
      parts_.push_back({(i % 3 == 1 ? body_.data() : file_->data()) + at, length});
      parts_.push_back({});
    }
  }

  void write(std::span<const std::byte> bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::in | std::ios::out | std::ios::app).close();
    std::fstream out(path_, std::ios::binary | std::ios::in | std::ios::out);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  bool send() { return writer_.send_body(9, parts_, body_.size(), std::shared_ptr<const void>(keep_, keep_.get())); }

  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_ / "body";
  const std::vector<std::byte> body_;
  std::shared_ptr<const device::Region> file_;
  std::vector<ByteSpan> parts_;
  std::shared_ptr<int> keep_ = std::make_shared<int>();
  FakeStream stream_;
  FrameWriter writer_{stream_, 1 << 20, GetParam(), true};
};

TEST_P(BodyInAFile, IsReadAsItWasWrittenHoweverLittleGoesAtOnce) {
  const std::vector<std::byte> expected = frame(GetParam(), 3, 9, body_.size(), body_);
  for (const std::size_t room : {std::size_t{50'000}, std::size_t{262'143}, std::size_t{262'168}, SIZE_MAX}) {
    stream_.output.clear();
    stream_.room = room;
    ASSERT_TRUE(send());
    do {
      stream_.room = room;
    } while (!writer_.push());
    EXPECT_EQ(stream_.output, expected) << room;
    EXPECT_EQ(keep_.use_count(), 1);
  }
}

TEST_P(BodyInAFile, GoesOutAsItWasSummedWhateverIsWrittenMeanwhile) {
  stream_.room = 10'000;
  ASSERT_TRUE(send());
  write(pattern(body_.size(), 5));
  stream_.room = SIZE_MAX;
  while (!writer_.push()) {
  }
  ASSERT_EQ(stream_.output.size(), frame(GetParam(), 3, 9, body_.size(), body_).size());
  const ByteSpan payload = ByteSpan(stream_.output).subspan(kHeaderBytes, body_.size());
  EXPECT_TRUE(std::equal(body_.begin(), body_.begin() + 200'000, payload.begin())) << "it was summed before";
  EXPECT_EQ(stream_.output, frame(GetParam(), 3, 9, body_.size(), payload)) << "its checksum is its own";
}

TEST_P(BodyInAFile, ThatIsCutOffEndsTheStreamAndLetsGoOfTheBody) {
  stream_.room = 10'000;
  ASSERT_TRUE(send());
  std::filesystem::resize_file(path_, 300'000);
  stream_.room = SIZE_MAX;
  EXPECT_FALSE(writer_.source_lost());
  while (!writer_.push()) {
  }
  EXPECT_TRUE(writer_.ended());
  EXPECT_TRUE(writer_.source_lost());
  EXPECT_EQ(keep_.use_count(), 1);
  EXPECT_LT(stream_.output.size(), kHeaderBytes + 300'000 + 4096) << "nothing that is made up";
  EXPECT_FALSE(send());
}

INSTANTIATE_TEST_SUITE_P(Without, BodyInAFile, ::testing::Values(Checksums::kNone));
INSTANTIATE_TEST_SUITE_P(WithChecksums, BodyInAFile, ::testing::Values(Checksums::kEach));

// --- damage ---

/// Messages, control frames and a body; what came of them is compared with what was sent.
class DamagedFrames : public Frames {
 protected:
  /// What a reader makes of `bytes`, in pieces of `at_once`. Sets `*refused` to the error's text.
  std::vector<Message> read(std::span<const std::byte> bytes, std::size_t at_once, std::string* refused) {
    stream_ = {};
    stream_.give(bytes);
    stream_.at_once = at_once;
    stream_.ended = true;
    heard_ = {};
    const auto reading = reader();
    std::vector<Message> got;
    try {
      while (!reading->ended()) {
        if (auto message = next(*reading)) got.push_back(*std::move(message));
      }
    } catch (const ProtocolError& error) {
      *refused = error.what();
    }
    return got;
  }
};

TEST_P(DamagedFrames, NoFlippedBitIsTakenForData) {
  std::vector<std::byte> session;
  std::vector<Message> sent;
  unsigned seed = 0;
  for (const std::size_t size : {0u, 5u, 40u, 17'000u}) {
    for (const std::uint64_t kind : {1u, 2u, 3u}) {
      const auto payload = pattern(size, ++seed);
      const auto bytes = frame(kind, kind == 1 ? 0 : seed, size, payload);
      session.insert(session.end(), bytes.begin(), bytes.end());
      sent.push_back({kind != 1, kind == 1 ? 0 : seed, kind == 3, payload});
    }
  }
  for (const std::uint64_t kind : {4u, 5u, 6u}) {
    const auto bytes = frame(kind, kind == 6 ? 0 : 9, 0);
    session.insert(session.end(), bytes.begin(), bytes.end());
  }
  std::string refused;
  ASSERT_EQ(read(session, SIZE_MAX, &refused), sent);
  ASSERT_EQ(refused, "");
  for (std::size_t at = 0; at < session.size(); at += at % 17'000 < 600 ? 1 : 61) {
    auto damaged = session;
    damaged[at] ^= static_cast<std::byte>(1 << (at % 8));
    refused.clear();
    const auto got = read(damaged, at % 3 == 0 ? 1000 : SIZE_MAX, &refused);
    EXPECT_THAT(refused, ::testing::HasSubstr("arrived damaged: its CRC-32C is 0x")) << at;
    EXPECT_THAT(refused, ::testing::HasSubstr(where_)) << at;
    ASSERT_LE(got.size(), sent.size());
    EXPECT_TRUE(std::equal(got.begin(), got.end(), sent.begin())) << "byte " << at;
    EXPECT_TRUE(heard_.takes.empty() || heard_.takes.front() == 9) << "byte " << at;
  }
}

TEST_P(DamagedFrames, ADamagedLengthTakesNoMemory) {
  auto bytes = frame(3, 1, 16, pattern(16, 1));
  bytes[18] ^= std::byte{0x0F};  // within the limit of a body
  std::string refused;
  EXPECT_TRUE(read(std::span(bytes).first(kHeaderBytes), SIZE_MAX, &refused).empty());
  EXPECT_THAT(refused, ::testing::HasSubstr("the header of a frame from " + where_ + " arrived damaged"));
}

INSTANTIATE_TEST_SUITE_P(WithChecksums, DamagedFrames, ::testing::Values(Checksums::kEach));

}  // namespace
}  // namespace crossdock::transport::net
