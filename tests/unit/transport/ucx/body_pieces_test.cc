// Bodies in pieces: how they are cut, how they cross, and what a peer may not send.
#include "transport/ucx/body_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "crossdock/core/error.h"
#include "support.h"
#include "transport/ucx/packed_parts.h"

namespace crossdock::transport::ucx_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kBig = kLargePiece;

/// Parts of these sizes, back to back in `memory`.
std::vector<ByteSpan> parts_of(ByteSpan memory, const std::vector<std::size_t>& sizes) {
  std::vector<ByteSpan> parts;
  for (const std::size_t size : sizes) {
    parts.push_back(memory.first(size));
    memory = memory.subspan(size);
  }
  return parts;
}

/// The sizes of each piece's prefix and of its parts.
std::vector<std::pair<std::size_t, std::size_t>> cut(const std::vector<std::size_t>& sizes) {
  std::size_t total = 0;
  for (const std::size_t size : sizes) total += size;
  const std::vector<std::byte> memory(total);
  const std::vector<ByteSpan> parts = parts_of(memory, sizes);
  std::vector<std::pair<std::size_t, std::size_t>> pieces;
  std::size_t seen = 0;
  for (const BodyPiece& piece : pieces_of(parts)) {
    EXPECT_EQ(piece.size, size_of(piece.parts));
    pieces.emplace_back(size_of(piece.prefix), piece.size);
    seen += size_of(piece.prefix) + piece.size;
  }
  EXPECT_EQ(seen, total);
  return pieces;
}

std::pair<std::size_t, std::size_t> piece(std::size_t prefix, std::size_t size) { return {prefix, size}; }

TEST(UcxBodyPieces, LargePartsAreTheirOwnAndOthersAreTogether) {
  EXPECT_THAT(cut({}), ElementsAre());
  EXPECT_THAT(cut({0, 0}), ElementsAre());
  EXPECT_THAT(cut({5, 6}), ElementsAre(piece(0, 11)));
  EXPECT_THAT(cut({kBig, kBig}), ElementsAre(piece(0, kBig), piece(0, kBig)));
  EXPECT_THAT(cut({8, 0, kBig, 56, 8, kBig, 3}), ElementsAre(piece(8, kBig), piece(64, kBig), piece(0, 3)));
  EXPECT_THAT(cut({kMaxPrefix + 1, kBig}), ElementsAre(piece(0, kMaxPrefix + 1), piece(0, kBig)));
  EXPECT_THAT(cut(std::vector<std::size_t>(40, 60'000)),
              ElementsAre(piece(0, 17 * 60'000), piece(0, 17 * 60'000), piece(0, 6 * 60'000)));
}

TEST(UcxBodyPieces, TheirNumberIsBounded) {
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 3000; ++i) sizes.insert(sizes.end(), {kBig, kMaxPrefix + 1});
  EXPECT_LE(cut(sizes).size(), kMaxPieces);
}

/// Sends a body in pieces, and expects it.
void cross(Ends& ends, const std::vector<std::size_t>& sizes, std::uint64_t tag) {
  std::size_t total = 0;
  for (const std::size_t size : sizes) total += size;
  auto body = std::make_shared<const std::vector<std::byte>>(pattern(total, static_cast<unsigned>(tag)));
  const std::weak_ptr<const std::vector<std::byte>> alive = body;
  const std::vector<std::byte> expected = *body;
  PiecesAhead ahead;
  ASSERT_TRUE(ends.server.endpoint->send_body(tag, parts_of(*body, sizes), body, &ahead));
  body.reset();
  const Received got = ends.receive(ends.client);
  EXPECT_EQ(got.kind, MessageKind::kTagged);
  EXPECT_EQ(got.tag, tag);
  EXPECT_TRUE(same(got.bytes, expected)) << tag;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got.bytes.data()) % 64, 0u);
  EXPECT_TRUE(ends.run([&] { return alive.expired(); })) << tag;
}

TEST(UcxBodyPieces, UcxSendsHeadersThatAreLongEnough) {
  const Ends ends;
  EXPECT_GE(ends.server.worker->max_header(), kMaxPieceHeader);
}

TEST(UcxBodyPieces, BodiesCross) {
  Ends ends;
  std::uint64_t tag = 0;
  for (const std::size_t part : {1u, 60u, 2000u, 20'000u, 65'535u, 65'536u, 100'001u, 1'500'000u}) {
    cross(ends, std::vector<std::size_t>(2, part), ++tag);
    cross(ends, std::vector<std::size_t>(20, part), ++tag);
    cross(ends, {part, 0, kBig, 7, part, kBig + 3, part}, ++tag);
  }
  cross(ends, std::vector<std::size_t>(4000, 3000), ++tag);
}

TEST(UcxBodyPieces, PackedPartsAreBoundedAndTheRestIsSentInPlace) {
  Ends ends;
  const std::vector<std::byte> body = pattern(1 << 20);
  const std::vector<ByteSpan> parts = parts_of(body, std::vector<std::size_t>(64, 16 << 10));
  constexpr std::uint64_t kBodies = 20;
  PiecesAhead ahead;
  for (std::uint64_t i = 0; i < kBodies; ++i) ASSERT_TRUE(ends.server.endpoint->send_body(i, parts, nullptr, &ahead));
  for (std::uint64_t i = 0; i < kBodies; ++i) {
    const Received got = ends.receive(ends.client);
    EXPECT_EQ(got.tag, i);
    EXPECT_TRUE(same(got.bytes, body));
  }
}

TEST(UcxBodyPieces, ConnectionsShareTheLimitOfPackedParts) {
  const auto shared = std::make_shared<PackedMemory>();
  const std::vector<std::byte> bytes = pattern(1 << 20);
  const std::vector<ByteSpan> parts = parts_of(bytes, {1000, (1 << 20) - 1000});
  std::vector<std::shared_ptr<std::byte>> blocks;
  constexpr std::size_t kConnections = PackedParts::kMostShared / PackedParts::kMost;
  for (std::size_t i = 0; i < kConnections; ++i) {
    PackedParts one(shared);
    for (; one.has_room(1 << 20); blocks.push_back(one.pack(parts, 1 << 20))) {
    }
    EXPECT_EQ(blocks.size(), (i + 1) * (PackedParts::kMost >> 20)) << "a connection has a limit of its own";
  }
  EXPECT_TRUE(same({blocks.back().get(), bytes.size()}, bytes));
  const PackedParts last(shared);
  EXPECT_FALSE(last.has_room(1));
  blocks.pop_back();
  EXPECT_TRUE(last.has_room(1 << 20));
  EXPECT_FALSE(last.has_room((1 << 20) + 1));
  blocks.clear();
  EXPECT_EQ(shared->under_way, 0u);
}

TEST(UcxBodyPieces, ComeInTheOrderOfOtherMessages) {
  Ends ends;
  const std::vector<std::byte> body = pattern(3 * kBig + 5);
  const std::vector<ByteSpan> parts = parts_of(body, {kBig, 5, kBig, kBig});
  constexpr std::uint64_t kRounds = 30;
  PiecesAhead ahead;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(ends.server.endpoint->send_untagged(as_bytes("metadata"), {}));
    ASSERT_TRUE(ends.server.endpoint->send_body(i, parts, nullptr, &ahead));
    ASSERT_TRUE(ends.server.endpoint->send_tagged(1000 + i, as_bytes("tagged"), {}));
  }
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    EXPECT_EQ(as_text(ends.receive(ends.client).bytes), "metadata");
    const Received got = ends.receive(ends.client);
    EXPECT_EQ(got.tag, i);
    EXPECT_TRUE(same(got.bytes, body));
    EXPECT_EQ(ends.receive(ends.client).tag, 1000 + i);
  }
}

/// While nobody takes them, later ones wait without memory of ours.
TEST(UcxBodyPieces, AWaitingBodyIsReceivedLater) {
  ReceiveLimits limits = kLimits;
  limits.queue_bytes = 1 << 20;
  Ends ends;
  ends.client.worker->limit(limits);
  const std::vector<std::byte> body = pattern(900'000);
  const std::vector<ByteSpan> parts = parts_of(body, {40'000, 400'000, 10, 400'000, 59'990});
  PiecesAhead ahead;
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(ends.server.endpoint->send_body(i, parts, nullptr, &ahead));
  EXPECT_FALSE(ends.run([&] { return ends.server.worker->sends() == 0; }, 200));
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Received got = ends.receive(ends.client);
    EXPECT_EQ(got.tag, i);
    EXPECT_TRUE(same(got.bytes, body));
  }
}

TEST(UcxBodyPieces, SmallOnesAheadOfAPeerAreBounded) {
  constexpr std::uint64_t kHalf = PiecesAhead::kMost / 2;
  PiecesAhead ahead;
  ahead.begin(1, 0);
  EXPECT_TRUE(ahead.add(3 * PiecesAhead::kMost)) << "a single body may have more";
  ahead.begin(2, 0);
  EXPECT_TRUE(ahead.add(0)) << "large pieces alone stay with the sender";
  EXPECT_FALSE(ahead.add(1));
  EXPECT_EQ(ahead.goal(), 1u);
  ahead.begin(2, 1);
  EXPECT_EQ(ahead.goal(), 0u);
  EXPECT_TRUE(ahead.add(kHalf));
  ahead.begin(4, 1);
  EXPECT_TRUE(ahead.add(kHalf));
  ahead.begin(6, 1);
  EXPECT_FALSE(ahead.add(1));
  EXPECT_EQ(ahead.goal(), 2u);
  ahead.begin(6, 3);
  EXPECT_TRUE(ahead.add(kHalf));
  EXPECT_FALSE(ahead.add(1));
  EXPECT_EQ(ahead.goal(), 4u);
}

TEST(UcxBodyPieces, OnlySmallOnesAreAheadOfAPeer) {
  const std::vector<std::byte> bytes = pattern(3 * kBig);
  const std::vector<ByteSpan> parts = parts_of(bytes, {10, kBig, 5000, kBig, kBig - 5010});
  EXPECT_EQ(small_bytes_of(pieces_of(parts)), 10u + 5000 + (kBig - 5010 < kLargePiece ? kBig - 5010 : 0));
}

TEST(UcxBodyPieces, EndsMayBeDestroyedInAnyState) {
  const std::vector<std::byte> bytes = pattern(8'000'000);
  const std::vector<ByteSpan> parts = parts_of(bytes, {3'000'000, 10, 3'000'000, 30'000, 1'900'000});
  for (int step = 0; step < 16; ++step) {
    const auto body = std::make_shared<const int>(step);
    {
      Ends ends;
      PiecesAhead ahead;
      for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(ends.server.endpoint->send_body(i, parts, body, &ahead));
      for (int i = 0; i < step; ++i) {
        ends.client.worker->progress();
        ends.server.worker->progress();
      }
      End& first = step % 2 == 0 ? ends.client : ends.server;
      if (step % 3 == 0) first.endpoint.reset();
      first.worker->progress();
      first.close();
    }
    EXPECT_EQ(body.use_count(), 1) << step;
  }
}

/// What a peer may send instead of the pieces of one body.
class UcxBodyPiecesOfAPeer : public ::testing::Test {
 protected:
  void send(std::uint64_t tag, std::uint64_t total, std::size_t prefix, std::size_t size) {
    const std::array<ByteSpan, 2> parts = {ByteSpan(bytes_).first(prefix), ByteSpan(bytes_).first(size)};
    const BodyPiece piece{.prefix = std::span(parts).first(1), .parts = std::span(parts).subspan(1), .size = size};
    ASSERT_TRUE(ends_.server.endpoint->send_pieces({.tag = tag, .total = total}, {&piece, 1}, nullptr));
  }
  void limit_pieces_to(std::uint64_t bytes) {
    ReceiveLimits limits = kLimits;
    limits.max_in_pieces = bytes;
    ends_.client.worker->limit(limits);
  }
  void expect_refused(const std::string& text) {
    try {
      ends_.receive(ends_.client);
      FAIL() << "a body came";
    } catch (const ProtocolError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }

  const std::vector<std::byte> bytes_ = pattern(200'000);
  Ends ends_;
};

constexpr const char* kUnexpected = "sent a piece of a body that this end doesn't expect";

TEST_F(UcxBodyPiecesOfAPeer, MoreThanTheBodyHas) {
  send(1, 10, 0, 11);
  expect_refused(kUnexpected);
}

TEST_F(UcxBodyPiecesOfAPeer, FarMoreThanTheBodyHas) {
  send(1, 10, 0, 100'000);
  expect_refused(kUnexpected);
}

TEST_F(UcxBodyPiecesOfAPeer, MoreInALaterPiece) {
  send(1, 150'000, 0, 100'000);
  send(1, 150'000, 5, 50'000);
  expect_refused(kUnexpected);
}

TEST_F(UcxBodyPiecesOfAPeer, NothingInAPiece) {
  send(1, 10, 0, 0);
  expect_refused(kUnexpected);
}

TEST_F(UcxBodyPiecesOfAPeer, TooMuchInAHeader) {
  send(1, 10'000, kMaxPrefix + 1, 5);
  expect_refused(kUnexpected);
}

TEST_F(UcxBodyPiecesOfAPeer, AnotherBodyInTheMiddleOfOne) {
  send(1, 150'000, 0, 100'000);
  send(2, 150'000, 0, 50'000);
  expect_refused(kUnexpected);
}

TEST_F(UcxBodyPiecesOfAPeer, AnotherSizeInTheMiddle) {
  send(1, 150'000, 0, 100'000);
  send(1, 150'001, 0, 50'001);
  expect_refused(kUnexpected);
}

TEST_F(UcxBodyPiecesOfAPeer, ABodyOverTheLimit) {
  send(1, std::uint64_t{1} << 40, 0, 10);
  expect_refused("sent a body of 1099511627776 bytes; the limit here is 67108864");
}

TEST_F(UcxBodyPiecesOfAPeer, PiecesAtAnEndThatTakesNone) {
  limit_pieces_to(0);
  send(1, 10, 0, 10);
  expect_refused("the limit here is 0");
}

TEST_F(UcxBodyPiecesOfAPeer, ABodyOverALimitBelowThatOfMessages) {
  limit_pieces_to(999);
  send(1, 1000, 0, 10);
  expect_refused("sent a body of 1000 bytes; the limit here is 999");
}

TEST_F(UcxBodyPiecesOfAPeer, ABodyThatItDoesntFinish) {
  send(1, 200, 0, 100);
  ASSERT_TRUE(ends_.run([&] { return ends_.client.worker->in_message(); }));
  ends_.server.close();
  ASSERT_TRUE(
      run_until({ends_.client.worker.get()}, nullptr, [&] { return ends_.client.endpoint->failure().has_value(); }));
  EXPECT_TRUE(ends_.client.worker->in_message());
  EXPECT_EQ(ends_.client.worker->take(), std::nullopt);
}

TEST_F(UcxBodyPiecesOfAPeer, VerySmallPiecesMakeABody) {
  for (std::size_t at = 0; at < 300; ++at) send(1, 300, at % 2, 1 - at % 2);
  const Received got = ends_.receive(ends_.client);
  EXPECT_EQ(got.bytes.size(), 300u);
}

/// The peer tells of them, and doesn't send their bytes: it makes no progress.
TEST_F(UcxBodyPiecesOfAPeer, PiecesWithoutTheirBytesAreBounded) {
  constexpr std::size_t kMost = 20;
  ReceiveLimits limits = kLimits;
  limits.queue_pieces = kMost;
  for (const std::size_t count : {kMost, kMost + 1}) {
    Ends ends;
    ends.client.worker->limit(limits);
    const std::uint64_t total = count * kBig;
    ASSERT_TRUE(ends.server.endpoint->send_untagged(as_bytes("first"), {}));
    ends.receive(ends.client);
    const ByteSpan large = ByteSpan(bytes_).first(kBig);
    const std::vector<BodyPiece> pieces(count, {.prefix = {}, .parts = {&large, 1}, .size = kBig});
    ASSERT_TRUE(ends.server.endpoint->send_pieces({.tag = 1, .total = total}, pieces, nullptr));
    const auto ended = [&] { return ends.client.worker->ready(); };
    EXPECT_EQ(run_until({ends.client.worker.get()}, nullptr, ended, 200), count > kMost);
    if (count > kMost) {
      EXPECT_THROW(ends.client.worker->take(), ProtocolError);
    } else {
      EXPECT_EQ(ends.receive(ends.client).bytes.size(), total);
    }
  }
}

}  // namespace
}  // namespace crossdock::transport::ucx_test
