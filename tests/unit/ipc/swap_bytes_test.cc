// Files of big-endian writers: no library at hand writes them, so they are made here by the format's rules.
#include <arrow_message_generated.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "crossdock/core/error.h"
#include "crossdock/ipc/file_reader.h"
#include "ipc/compression.h"
#include "ipc/container.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;

/// One buffer as it is here, and how wide the numbers in it are, in their order, again and again.
struct Made {
  Bytes bytes;
  std::vector<std::size_t> widths;
};

template <class T>
void append(Bytes* bytes, T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes->insert(bytes->end(), from, from + sizeof value);
}

template <class T>
Made numbers(std::initializer_list<T> values) {
  Made out{{}, {sizeof(T)}};
  for (const T value : values) append(&out.bytes, value);
  return out;
}

Made text(std::string_view bytes) {
  const ByteSpan span = as_bytes(bytes);
  return {{span.begin(), span.end()}, {1}};
}

Bytes swapped(const Made& made) {
  Bytes out = made.bytes;
  std::size_t at = 0;
  for (std::size_t i = 0; at < out.size(); ++i) {
    const std::size_t width = made.widths[i % made.widths.size()];
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(at), out.begin() + static_cast<std::ptrdiff_t>(at + width));
    at += width;
  }
  return out;
}

/// A short view (whose text isn't swapped) and a long one.
Made views(const std::string& in_buffer) {
  Made out{{}, {4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 1, 1, 1, 1, 4, 4}};
  append(&out.bytes, std::int32_t{5});
  for (const char c : std::string("short\0\0\0\0\0\0\0", 12)) out.bytes.push_back(static_cast<std::byte>(c));
  append(&out.bytes, static_cast<std::int32_t>(in_buffer.size()));
  for (int i = 0; i < 4; ++i) out.bytes.push_back(static_cast<std::byte>(in_buffer[static_cast<std::size_t>(i)]));
  append(&out.bytes, std::int32_t{0});
  append(&out.bytes, std::int32_t{0});
  return out;
}

class Schema {
 public:
  template <class T>
  Offset<flatbuf::Field> field(flatbuf::Type kind, Offset<T> type, std::vector<Offset<flatbuf::Field>> children = {},
                               Offset<flatbuf::DictionaryEncoding> encoding = {}) {
    const auto name = b.CreateString("f");
    const auto listed = b.CreateVector(children);
    return flatbuf::CreateField(b, name, true, kind, type.Union(), encoding, listed);
  }
  Offset<flatbuf::Field> integer(int bits, Offset<flatbuf::DictionaryEncoding> encoding = {}) {
    return field(flatbuf::Type::Int, flatbuf::CreateInt(b, bits, true), {}, encoding);
  }
  Bytes message(const std::vector<Offset<flatbuf::Field>>& fields, flatbuf::Endianness endianness) {
    const auto schema = flatbuf::CreateSchema(b, endianness, b.CreateVector(fields));
    b.Finish(flatbuf::CreateMessage(b, flatbuf::MetadataVersion::V5, flatbuf::MessageHeader::Schema, schema.Union()));
    const auto* from = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
    return {from, from + b.GetSize()};
  }
  FlatBufferBuilder b;
};

void frame(Bytes* out, ByteSpan metadata, ByteSpan body) {
  append(out, std::int32_t{-1});
  append(out, static_cast<std::int32_t>(align_up(metadata.size(), 8)));
  out->insert(out->end(), metadata.begin(), metadata.end());
  out->resize(align_up(out->size(), 8));
  out->insert(out->end(), body.begin(), body.end());
}

/// A message of `batch` whose body is `buffers`, swapped.
void put(Bytes* out, const array::RecordBatch& batch, const std::vector<Made>& buffers, std::int64_t dictionary,
         Codec codec) {
  Encoder encoder;
  array::RecordBatch big = batch;
  std::vector<Bytes> kept;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    kept.push_back(swapped(buffers[i]));
    big.buffers[i] = {kept.back().data(), static_cast<std::int64_t>(kept.back().size())};
  }
  Bytes body;
  if (codec != Codec::kNone) {
    Compressor compressor(codec);
    const CompressedBody& made = compressor.compress(big);
    for (const ByteSpan piece : made.pieces) body.insert(body.end(), piece.begin(), piece.end());
    return frame(out,
                 dictionary < 0 ? encoder.record_batch(big, &made.layout)
                                : encoder.dictionary_batch(big, dictionary, false, &made.layout),
                 body);
  }
  for (const Bytes& bytes : kept) {
    body.insert(body.end(), bytes.begin(), bytes.end());
    body.resize(align_up(body.size(), 64));
  }
  frame(out, dictionary < 0 ? encoder.record_batch(big) : encoder.dictionary_batch(big, dictionary, false), body);
}

struct File {
  Bytes bytes;
  std::vector<Made> buffers;
};

File big_endian_file(Codec codec) {
  Schema s;
  auto& b = s.b;
  using T = flatbuf::Type;
  const auto encoding = flatbuf::CreateDictionaryEncoding(b, 3, flatbuf::CreateInt(b, 16, true));
  const std::vector<std::int32_t> codes{0, 1};
  const auto union_type = flatbuf::CreateUnion(b, flatbuf::UnionMode::Dense, b.CreateVector(codes));
  std::vector<Offset<flatbuf::Field>> fields{
      s.integer(32),
      s.field(T::Utf8, flatbuf::CreateUtf8(b)),
      s.field(T::Decimal, flatbuf::CreateDecimal(b, 20, 2, 128)),
      s.field(T::LargeList, flatbuf::CreateLargeList(b), {s.integer(64)}),
      s.field(T::Utf8View, flatbuf::CreateUtf8View(b)),
      s.field(T::Bool, flatbuf::CreateBool(b)),
      s.field(T::Interval, flatbuf::CreateInterval(b, flatbuf::IntervalUnit::MONTH_DAY_NANO)),
      s.field(T::Interval, flatbuf::CreateInterval(b, flatbuf::IntervalUnit::DAY_TIME)),
      s.field(T::FixedSizeBinary, flatbuf::CreateFixedSizeBinary(b, 4)),
      s.field(T::Union, union_type, {s.integer(16), s.integer(8)}),
      s.field(T::ListView, flatbuf::CreateListView(b), {s.integer(16)}),
      s.field(T::Utf8, flatbuf::CreateUtf8(b), {}, encoding),
  };
  File file;
  frame(&file.bytes, s.message(fields, flatbuf::Endianness::Big), {});
  const auto schema = read_container(file.bytes, "made", {}).schema;

  const auto slot = schema->dictionaries().at(0);
  array::RecordBatch values;
  values.schema = slot.values;
  values.num_rows = 2;
  values.nodes = {{2, 0, 0}};
  values.buffers.resize(3);
  put(&file.bytes, values, {{}, numbers<std::int32_t>({0, 1, 4}), text("abcd")}, slot.id, codec);

  const std::string in_buffer = "a text that isn't inline";
  Made months{{}, {4, 4, 8}};
  for (const int i : {1, -2}) {
    append(&months.bytes, std::int32_t{i});
    append(&months.bytes, std::int32_t{i * 7});
    append(&months.bytes, std::int64_t{i} << 40);
  }
  file.buffers = {{}, numbers<std::int32_t>({-2, 300'000})};
  const auto add = [&](std::initializer_list<Made> more) {
    file.buffers.insert(file.buffers.end(), more.begin(), more.end());
  };
  add({{}, numbers<std::int32_t>({0, 2, 5}), text("abcde")});
  Made decimals{{}, {16}};
  for (const std::int64_t part : {1234567, 0, -5, -1}) append(&decimals.bytes, part);
  add({{}, decimals});
  add({{}, numbers<std::int64_t>({0, 1, 3}), {}, numbers<std::int64_t>({1, -2, std::int64_t{3} << 50})});
  add({{}, views(in_buffer), text(in_buffer)});
  add({text("\x01"), text("\x02")});
  add({{}, months});
  add({{}, numbers<std::int32_t>({1, 2000, -3, 4})});
  add({{}, text("abcdefgh")});
  add({text(std::string_view("\0\1", 2)),
       numbers<std::int32_t>({0, 0}),
       {},
       numbers<std::int16_t>({515}),
       {},
       text("x")});
  add({{}, numbers<std::int32_t>({1, 0}), numbers<std::int32_t>({1, 2}), {}, numbers<std::int16_t>({258, -2})});
  add({{}, numbers<std::int16_t>({1, 0})});

  array::RecordBatch batch;
  batch.schema = schema;
  batch.num_rows = 2;
  batch.nodes = {{2, 0, 0}, {2, 0, 0}, {2, 0, 0}, {2, 0, 0}, {3, 0, 0}, {2, 0, 0}, {2, 1, 0}, {2, 0, 0},
                 {2, 0, 0}, {2, 0, 0}, {2, 0, 0}, {1, 0, 0}, {1, 0, 0}, {2, 0, 0}, {2, 0, 0}, {2, 0, 0}};
  batch.variadic_counts = {1};
  batch.buffers.resize(file.buffers.size());
  batch.dictionaries.resize(1);
  put(&file.bytes, batch, file.buffers, -1, codec);
  append(&file.bytes, std::int32_t{-1});
  append(&file.bytes, std::int32_t{0});
  return file;
}

TEST(SwapBytes, EveryKindOfBuffer) {
  for (const Codec codec : {Codec::kNone, Codec::kLz4Frame, Codec::kZstd}) {
    const File file = big_endian_file(codec);
    const auto memory = std::make_shared<const Bytes>(file.bytes);
    FileReaderOptions options;
    options.validation = array::Validation::kFull;
    FileReader reader(FileBytes{"big.arrow", *memory, memory}, options);
    const auto batch = reader.next();
    ASSERT_TRUE(batch.has_value());
    ASSERT_EQ(batch->buffers.size(), file.buffers.size());
    for (std::size_t i = 0; i < file.buffers.size(); ++i) {
      const Bytes& expected = file.buffers[i].bytes;
      ASSERT_EQ(batch->buffers[i].size, static_cast<std::int64_t>(expected.size())) << i;
      if (expected.empty()) continue;
      EXPECT_EQ(std::memcmp(batch->buffers[i].data, expected.data(), expected.size()), 0) << "buffer " << i;
    }
    const array::RecordBatch& values = *batch->dictionaries.at(0);
    EXPECT_EQ(std::memcmp(values.buffers[1].data, numbers<std::int32_t>({0, 1, 4}).bytes.data(), 12), 0);
    EXPECT_FALSE(reader.next().has_value());
  }
}

TEST(SwapBytes, IsBounded) {
  const File file = big_endian_file(Codec::kNone);
  const auto memory = std::make_shared<const Bytes>(file.bytes);
  FileReaderOptions options;
  options.limits.max_decompressed_bytes = 256;
  FileReader reader(FileBytes{"big.arrow", *memory, memory}, options);
  EXPECT_THAT(error_of<InvalidDataError>([&] { reader.next(); }), HasSubstr("limit of 256 bytes"));
}

}  // namespace
}  // namespace crossdock::ipc::testing
