#include "ipc/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include "crossdock/core/error.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using array::TypeId;
using ::testing::HasSubstr;

constexpr Codec kCodecs[] = {Codec::kLz4Frame, Codec::kZstd};

/// int64 columns: a counter that compresses, random bytes that don't, and one value again and again.
struct Columns {
  explicit Columns(std::int64_t rows) {
    std::mt19937_64 random(7);
    for (std::int64_t i = 0; i < rows; ++i) {
      counter.push_back(i % 100);
      noise.push_back(static_cast<std::int64_t>(random()));
      same.push_back(-3);
    }
    batch.schema = std::make_shared<const array::Schema>(
        std::vector{field("counter", TypeId::kInt64), field("noise", TypeId::kInt64), field("same", TypeId::kInt64)});
    batch.num_rows = rows;
    batch.nodes = {{rows, 0, 0}, {rows, 0, 0}, {rows, 0, 0}};
    batch.buffers = {{}, {counter.data(), rows * 8}, {}, {noise.data(), rows * 8}, {}, {same.data(), rows * 8}};
  }
  std::vector<std::int64_t> counter, noise, same;
  array::RecordBatch batch;
};

struct Encoded {
  std::vector<std::byte> metadata;
  std::vector<std::byte> body;
};

Encoded encode(Compressor& compressor, const array::RecordBatch& batch) {
  const CompressedBody& compressed = compressor.compress(batch);
  Encoded out;
  out.metadata = to_vector(Encoder().record_batch(batch, &compressed.layout));
  for (const ByteSpan piece : compressed.pieces) out.body.insert(out.body.end(), piece.begin(), piece.end());
  EXPECT_EQ(static_cast<std::int64_t>(out.body.size()), compressed.layout.body_length);
  return out;
}

BatchHeader header_of(const Encoded& encoded, const array::Schema& schema) {
  BatchHeader header;
  Message::parse(encoded.metadata, {}, "test").batch(schema, &header);
  return header;
}

void expect_same(const array::RecordBatch& expected, const BatchHeader& header,
                 const std::vector<array::BufferView>& views) {
  EXPECT_EQ(header.codec, Codec::kNone);
  ASSERT_EQ(views.size(), expected.buffers.size());
  for (std::size_t i = 0; i < views.size(); ++i) {
    ASSERT_EQ(views[i].size, expected.buffers[i].size) << i;
    EXPECT_EQ(header.buffers[i].length, views[i].size) << i;
    if (views[i].size == 0) continue;
    EXPECT_EQ(std::memcmp(views[i].data, expected.buffers[i].data, static_cast<std::size_t>(views[i].size)), 0) << i;
  }
}

/// Threads for a test, and how many were asked for.
Parallel threads(std::atomic<int>* calls) {
  return [calls](int most, const std::function<void(int)>& work) {
    ++*calls;
    std::vector<std::thread> helpers;
    for (int i = 1; i < std::min(most, 4); ++i) helpers.emplace_back(work, i);
    work(0);
    for (std::thread& helper : helpers) helper.join();
  };
}

TEST(Compression, ComesBackAsItWas) {
  const Columns columns(5000);
  for (const Codec codec : kCodecs) {
    Compressor compressor(codec);
    const Encoded encoded = encode(compressor, columns.batch);
    BatchHeader header = header_of(encoded, *columns.batch.schema);
    EXPECT_EQ(header.codec, codec);
    EXPECT_LT(header.buffers[1].length, 5000 * 8 / 2);
    EXPECT_EQ(header.buffers[3].length, 5000 * 8 + 8) << "noise is stored raw";
    std::vector<array::BufferView> views;
    Decompressor decompressor;
    const auto body = std::make_shared<const std::vector<std::byte>>(encoded.body);
    const auto owner = decompressor.decompress(*columns.batch.schema, *body, body, "test", &header, &views);
    expect_same(columns.batch, header, views);
    EXPECT_EQ(views[3].data, body->data() + 8 + header_of(encoded, *columns.batch.schema).buffers[3].offset)
        << "what was stored raw isn't copied";
    for (const std::size_t i : {1u, 5u}) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(views[i].data) % 64, 0u);
    EXPECT_EQ(body.use_count(), 2) << "the views of the body keep it";
  }
}

TEST(Compression, EveryTypeAndSize) {
  for (const Codec codec : kCodecs) {
    Compressor compressor(codec, codec == Codec::kZstd ? 9 : 12);
    Decompressor decompressor;
    for (const std::int64_t rows : {0, 1, 3, 1000}) {
      const array::RecordBatch batch = make_batch(every_type(), rows, true);
      const Encoded encoded = encode(compressor, batch);
      BatchHeader header = header_of(encoded, *batch.schema);
      std::vector<array::BufferView> views;
      const auto owner = decompressor.decompress(*batch.schema, encoded.body, nullptr, "test", &header, &views);
      expect_same(batch, header, views);
      assemble(batch.schema, header, views, batch.dictionaries, owner);
    }
  }
}

TEST(Compression, OnSeveralThreads) {
  const Columns columns(200'000);
  for (const Codec codec : kCodecs) {
    std::atomic<int> calls{0};
    Compressor compressor(codec, std::nullopt, threads(&calls));
    const Encoded encoded = encode(compressor, columns.batch);
    EXPECT_EQ(calls.load(), 1);
    Decompressor decompressor({}, threads(&calls));
    BatchHeader header = header_of(encoded, *columns.batch.schema);
    std::vector<array::BufferView> views;
    const auto owner = decompressor.decompress(*columns.batch.schema, encoded.body, nullptr, "test", &header, &views);
    EXPECT_EQ(calls.load(), 2);
    expect_same(columns.batch, header, views);

    const Columns small(10);
    const Encoded little = encode(compressor, small.batch);
    header = header_of(little, *small.batch.schema);
    decompressor.decompress(*small.batch.schema, little.body, nullptr, "test", &header, &views);
    EXPECT_EQ(calls.load(), 2) << "small bodies are not worth a thread";
  }
}

TEST(Compression, WithoutAnOwnerNothingViewsTheBody) {
  const Columns columns(300);
  Compressor compressor(Codec::kZstd);
  Encoded encoded = encode(compressor, columns.batch);
  BatchHeader header = header_of(encoded, *columns.batch.schema);
  std::vector<array::BufferView> views;
  const auto owner = Decompressor().decompress(*columns.batch.schema, encoded.body, nullptr, "test", &header, &views);
  std::fill(encoded.body.begin(), encoded.body.end(), std::byte{0xee});
  expect_same(columns.batch, header, views);
}

TEST(Compression, RawBuffersAtOddAddressesAreCopied) {
  const Columns columns(300);
  Compressor compressor(Codec::kLz4Frame);
  const Encoded encoded = encode(compressor, columns.batch);
  const auto moved = std::make_shared<std::vector<std::byte>>(encoded.body.size() + 3);
  std::copy(encoded.body.begin(), encoded.body.end(), moved->begin() + 3);
  BatchHeader header = header_of(encoded, *columns.batch.schema);
  std::vector<array::BufferView> views;
  const auto owner =
      Decompressor().decompress(*columns.batch.schema, ByteSpan(*moved).subspan(3), moved, "test", &header, &views);
  expect_same(columns.batch, header, views);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(views[3].data) % 64, 0u);
}

TEST(Compression, MemoryIsUsedAgain) {
  const Columns columns(5000);
  Compressor compressor(Codec::kZstd);
  const Encoded encoded = encode(compressor, columns.batch);
  std::vector<array::BufferView> views;
  std::shared_ptr<const void> last;
  {
    Decompressor decompressor;
    const auto decode = [&] {
      BatchHeader header = header_of(encoded, *columns.batch.schema);
      last = decompressor.decompress(*columns.batch.schema, encoded.body, nullptr, "test", &header, &views);
      return views[1].data;
    };
    const void* first = decode();
    last.reset();
    EXPECT_EQ(decode(), first);
    const auto held = last;
    EXPECT_NE(decode(), first) << "memory that somebody holds is left alone";
  }
  EXPECT_EQ(static_cast<const std::int64_t*>(views[1].data)[101], 1) << "a body outlives its Decompressor";
}

/// One int64 column whose only buffer is what `change` makes of an honest one; the error of decompressing it.
template <class Change>
std::string broken(Codec codec, const Limits& limits, Change&& change) {
  const Columns columns(1000);
  array::RecordBatch batch = columns.batch;
  batch.schema = std::make_shared<const array::Schema>(std::vector{field("x", TypeId::kInt64)});
  batch.nodes.resize(1);
  batch.buffers.resize(2);
  Compressor compressor(codec);
  const CompressedBody& compressed = compressor.compress(batch);
  std::vector<std::byte> body;
  for (const ByteSpan piece : compressed.pieces) body.insert(body.end(), piece.begin(), piece.end());
  body.resize(static_cast<std::size_t>(compressed.layout.buffers[1].length));
  change(&body);
  BodyLayout layout{codec, {{0, 0}, {0, static_cast<std::int64_t>(body.size())}}, 0};
  layout.body_length = static_cast<std::int64_t>(body.size());
  const auto metadata = to_vector(Encoder().record_batch(batch, &layout));
  BatchHeader header;
  Message::parse(metadata, {}, "bad.arrow").batch(*batch.schema, &header);
  std::vector<array::BufferView> views;
  const std::string text = error_of<InvalidDataError>(
      [&] { Decompressor(limits).decompress(*batch.schema, body, nullptr, "bad.arrow", &header, &views); });
  if (!text.empty()) {
    EXPECT_THAT(text, ::testing::StartsWith("bad.arrow"));
  }
  return text;
}

TEST(Compression, TheHonestBufferIsTaken) {
  for (const Codec codec : kCodecs) EXPECT_EQ(broken(codec, {}, [](auto*) {}), "");
}

TEST(Compression, CutAnywhere) {
  for (const Codec codec : kCodecs) {
    std::size_t whole = 0;
    broken(codec, {}, [&](auto* body) { whole = body->size(); });
    for (std::size_t n = 1; n < whole; ++n) {
      EXPECT_NE(broken(codec, {}, [&](auto* body) { body->resize(n); }), "") << n;
    }
  }
}

TEST(Compression, EveryBitFlipped) {
  // A flip within the data may go unseen: the codecs' frames carry no checksum of the content here. It must be an
  // error or other numbers, never a read or write outside (the sanitizers watch).
  for (const Codec codec : kCodecs) {
    std::size_t whole = 0;
    broken(codec, {}, [&](auto* body) { whole = body->size(); });
    for (std::size_t i = 0; i < whole; ++i) {
      for (const unsigned flip : {0x01u, 0x80u}) {
        broken(codec, {}, [&](auto* body) { (*body)[i] ^= static_cast<std::byte>(flip); });
      }
    }
  }
}

TEST(Compression, LengthsThatLie) {
  for (const Codec codec : kCodecs) {
    const auto with_length = [&](std::int64_t length) {
      return broken(codec, {}, [&](auto* body) { store_le(body->data(), length); });
    };
    EXPECT_THAT(with_length(-2), HasSubstr("its length prefix is -2"));
    EXPECT_THAT(with_length(std::numeric_limits<std::int64_t>::min()), HasSubstr("its length prefix is"));
    EXPECT_THAT(with_length(8001), HasSubstr("decompresses to fewer"));
    EXPECT_NE(with_length(8008), "");
    EXPECT_THAT(with_length(7999), HasSubstr("too few for 1000 elements")) << "found before anything is decoded";
    EXPECT_THAT(with_length(0), HasSubstr("too few for 1000 elements"));
    EXPECT_THAT(with_length(std::int64_t{1} << 50), HasSubstr("bytes can hold"));
    EXPECT_THAT(with_length(std::numeric_limits<std::int64_t>::max()), HasSubstr("bytes can hold"));
  }
}

TEST(Compression, LengthsAreBoundedBeforeMemoryIsTaken) {
  for (const Codec codec : kCodecs) {
    Limits limits;
    limits.max_decompressed_bytes = 7999;
    EXPECT_THAT(broken(codec, limits, [](auto*) {}), HasSubstr("larger than the limit of 7999 bytes"));
    limits.max_decompressed_bytes = 8000;
    EXPECT_EQ(broken(codec, limits, [](auto*) {}), "");
  }
}

TEST(Compression, ABombIsRefusedByName) {
  // 4 GiB of one byte: what Zstandard makes of it takes some 400 kB.
  constexpr std::int64_t kClaimed = std::int64_t{1} << 40;
  const auto text = broken(Codec::kZstd, {}, [&](auto* body) {
    body->resize(64 << 20);
    store_le(body->data(), kClaimed);
  });
  EXPECT_THAT(text, HasSubstr("larger than the limit of 4294967296 bytes"));
}

TEST(Compression, TheLimitIsForAllBuffersTogether) {
  const Columns columns(1000);
  Compressor compressor(Codec::kZstd);
  const Encoded encoded = encode(compressor, columns.batch);
  Limits limits;
  limits.max_decompressed_bytes = 20'000;  // each of the three has 8,000
  BatchHeader header = header_of(encoded, *columns.batch.schema);
  std::vector<array::BufferView> views;
  EXPECT_THAT(error_of<InvalidDataError>([&] {
                Decompressor(limits).decompress(*columns.batch.schema, encoded.body, nullptr, "test", &header, &views);
              }),
              HasSubstr("limit of 20000"));
}

TEST(Compression, ABufferIsExactlyOneFrame) {
  for (const Codec codec : kCodecs) {
    EXPECT_NE(broken(codec, {}, [](auto* body) { body->push_back(std::byte{1}); }), "") << "trailing bytes";
    EXPECT_NE(broken(codec, {},
                     [](auto* body) {
                       const auto frame = to_vector(ByteSpan(*body).subspan(8));
                       body->insert(body->end(), frame.begin(), frame.end());
                     }),
              "")
        << "two frames of which each has the length";
    EXPECT_NE(broken(codec, {}, [](auto* body) { std::fill(body->begin() + 8, body->end(), std::byte{0}); }), "");
    for (const std::size_t n : {1u, 7u}) {
      EXPECT_THAT(broken(codec, {}, [n](auto* body) { body->resize(n); }), HasSubstr("too few for its length prefix"));
    }
  }
}

TEST(Compression, ErrorsComeFromWhereverTheyWereFound) {
  const Columns columns(200'000);
  Compressor compressor(Codec::kLz4Frame);
  Encoded encoded = encode(compressor, columns.batch);
  const BatchHeader read = header_of(encoded, *columns.batch.schema);
  encoded.body[static_cast<std::size_t>(read.buffers[5].offset) + 8] ^= std::byte{0xff};  // the frame's magic
  std::atomic<int> calls{0};
  BatchHeader header = read;
  std::vector<array::BufferView> views;
  Decompressor decompressor({}, threads(&calls));
  EXPECT_THAT(error_of<InvalidDataError>([&] {
                decompressor.decompress(*columns.batch.schema, encoded.body, nullptr, "test", &header, &views);
              }),
              HasSubstr("test: buffer 5, compressed with LZ4_FRAME"));
  encoded.body[static_cast<std::size_t>(read.buffers[5].offset) + 8] ^= std::byte{0xff};
  header = read;
  const auto owner = decompressor.decompress(*columns.batch.schema, encoded.body, nullptr, "test", &header, &views);
  expect_same(columns.batch, header, views);
}

TEST(Compression, CallsThatMakeNoSense) {
  EXPECT_THAT(error_of<InvalidArgumentError>([] { Compressor compressor(Codec::kNone); }), HasSubstr("needs a codec"));
  EXPECT_THAT(error_of<InvalidArgumentError>([] { Compressor compressor(Codec::kZstd, 23); }), HasSubstr("to 22"));
  EXPECT_THAT(error_of<InvalidArgumentError>([] { Compressor compressor(Codec::kLz4Frame, 13); }), HasSubstr("to 12"));
  const Columns columns(10);
  Compressor compressor(Codec::kZstd);
  const Encoded encoded = encode(compressor, columns.batch);
  std::vector<array::BufferView> views;
  BatchHeader header = header_of(encoded, *columns.batch.schema);
  EXPECT_THAT(error_of<InvalidArgumentError>([&] {
                Decompressor().decompress(*columns.batch.schema, ByteSpan(encoded.body).first(8), nullptr, "test",
                                          &header, &views);
              }),
              HasSubstr("decompressing a body of 8 bytes"));
  array::RecordBatch on_gpu = columns.batch;
  on_gpu.device = {.type = device::DeviceType::kCuda, .id = 0};
  EXPECT_THAT(error_of<InvalidArgumentError>([&] { compressor.compress(on_gpu); }),
              HasSubstr("the host can't read its memory"));
}

}  // namespace
}  // namespace crossdock::ipc::testing
