#include "peers/wire.h"

#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <vector>

#include "crossdock/core/error.h"

namespace crossdock::peers::wire {
namespace {

using ::testing::ElementsAre;
using Bytes = std::vector<std::byte>;

Bytes body_of(const std::vector<FrameEntry>& frames, std::string_view meta, const std::vector<Bytes>& values) {
  Bytes body = encode_start(frames, as_bytes(meta));
  for (const Bytes& value : values) {
    body.resize(align_up(body.size(), kAlignment));
    body.insert(body.end(), value.begin(), value.end());
  }
  return body;
}

TEST(PeersWire, ABodyReturnsItsParts) {
  const std::vector<FrameEntry> frames = {{3, 0, 0}, {0, 0, 0}, {1 << 20, 64, 7}, {65, 0, 0}};
  const Bytes body = body_of(frames, "meta", {Bytes(3, std::byte{1}), Bytes(65, std::byte{2})});
  const Body parts = decode_body(body, 4);
  EXPECT_EQ(parts.frames, frames);
  EXPECT_EQ(as_text(parts.meta), "meta");
  EXPECT_EQ(parts.values[0].size(), 3u);
  EXPECT_TRUE(parts.values[1].empty());
  EXPECT_TRUE(parts.values[2].empty());
  EXPECT_EQ(parts.values[3].size(), 65u);
  EXPECT_EQ(parts.values[3][64], std::byte{2});
  for (const std::size_t i : {0, 3}) EXPECT_EQ((parts.values[i].data() - body.data()) % kAlignment, 0);
}

TEST(PeersWire, AMessageWithoutFramesAndMetaIsItsHeader) {
  const Bytes body = encode_start({}, {});
  EXPECT_EQ(body.size(), kHeaderBytes);
  EXPECT_TRUE(decode_body(body, 0).frames.empty());
}

TEST(PeersWire, EveryShorterOrLongerBodyIsRefused) {
  const Bytes body = body_of({{3, 0, 0}, {1 << 20, 64, 7}}, "meta", {Bytes(3, std::byte{1})});
  for (std::size_t size = 0; size < body.size(); ++size) {
    EXPECT_THROW(decode_body(ByteSpan(body).first(size), 2), ProtocolError) << size;
  }
  Bytes longer = body;
  longer.push_back({});
  EXPECT_THROW(decode_body(longer, 2), ProtocolError);
  EXPECT_THROW(decode_body(body, 1), ProtocolError) << "more frames than this end takes";
}

TEST(PeersWire, LengthsThatOverflowAreRefused) {
  const Bytes good = body_of({{3, 0, 0}}, "", {Bytes(3)});
  for (const std::uint64_t lie : {~std::uint64_t{0}, ~std::uint64_t{0} - 63, std::uint64_t{1} << 63}) {
    Bytes body = good;
    store_le(&body[kHeaderBytes], lie);  // the frame's size
    EXPECT_THROW(decode_body(body, 1), ProtocolError);
    body = good;
    store_le(&body[8], lie);  // the meta bytes
    EXPECT_THROW(decode_body(body, 1), ProtocolError);
  }
  Bytes body = good;
  store_le(&body[0], ~std::uint32_t{0});  // the number of frames
  EXPECT_THROW(decode_body(body, ~std::uint32_t{0}), ProtocolError);
  const Bytes empty = encode_start(std::vector<FrameEntry>{{0, 64, 1}}, {});
  EXPECT_THROW(decode_body(empty, 1), ProtocolError) << "an address without bytes";
}

TEST(PeersWire, BytesThatMustBeZeroAreChecked) {
  const Bytes good = body_of({{3, 0, 0}}, "", {Bytes(3)});
  for (const std::size_t at : {std::size_t{4}, kHeaderBytes + 20}) {
    Bytes body = good;
    body[at] = std::byte{1};
    EXPECT_THROW(decode_body(body, 1), ProtocolError) << at;
  }
}

TEST(PeersWire, FeaturesOfLaterVersionsAreNoError) {
  EXPECT_EQ(decode_open(encode(Open{.features = 1, .window_messages = 1})).features, 1u);
}

TEST(PeersWire, ControlMessagesReturnTheirContent) {
  const Open open{.features = 0,
                  .window_messages = 5,
                  .max_frames = 6,
                  .window_bytes = 7,
                  .max_body = 8,
                  .max_regions = 9,
                  .software = "1.2\n"};
  const Bytes bytes = encode(open);
  EXPECT_EQ(control_of(bytes), Control::kOpen);
  const Open read = decode_open(bytes);
  EXPECT_EQ(read.version, kVersion);
  EXPECT_EQ(read.window_messages, 5u);
  EXPECT_EQ(read.max_frames, 6u);
  EXPECT_EQ(read.window_bytes, 7u);
  EXPECT_EQ(read.max_body, 8u);
  EXPECT_EQ(read.max_regions, 9u);
  EXPECT_THAT(read.software, ::testing::StartsWith("1.2")) << "made printable";
  EXPECT_THAT(read.software, ::testing::Not(::testing::HasSubstr("\n")));

  const Bytes returned = encode(Return{3, 400, {{1, 2}, {65535, 1}}});
  EXPECT_EQ(control_of(returned), Control::kReturn);
  const Return back = decode_return(returned);
  EXPECT_EQ(back.taken_messages, 3u);
  EXPECT_EQ(back.taken_bytes, 400u);
  EXPECT_THAT(back.released, ElementsAre(Released{1, 2}, Released{65535, 1}));

  EXPECT_EQ(decode_end(encode(End::kAborted)), End::kAborted);
  EXPECT_EQ(control_of(encode(End::kClosed)), Control::kEnd);
}

TEST(PeersWire, MalformedControlMessagesAreRefused) {
  for (const auto& message :
       {encode(Open{.window_messages = 1, .software = "1.2"}), encode(Return{0, 0, {{1, 1}}}), encode(End::kClosed)}) {
    for (std::size_t size = 0; size < message.size(); ++size) {
      const ByteSpan cut = ByteSpan(message).first(size);
      EXPECT_THROW(
          {
            switch (control_of(cut)) {
              case Control::kOpen: decode_open(cut); break;
              case Control::kReturn: decode_return(cut); break;
              case Control::kEnd: decode_end(cut); break;
            }
          },
          ProtocolError)
          << size;
    }
  }
  EXPECT_THROW(control_of(Bytes(8)), ProtocolError) << "kind 0";
  EXPECT_THROW(decode_open(encode(Open{.window_messages = 0})), ProtocolError);
  Bytes end = encode(End::kClosed);
  end[4] = std::byte{9};
  EXPECT_THROW(decode_end(end), ProtocolError);
  Bytes returned = encode(Return{0, 0, {{1, 1}}});
  store_le(&returned[4], ~std::uint32_t{0});
  EXPECT_THROW(decode_return(returned), ProtocolError);
}

}  // namespace
}  // namespace crossdock::peers::wire
