// How the bodies of a published table are packed for transports that send them.
#include "session/server_stream.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "core/bytes.h"
#include "device/region_address.h"
#include "session/published_table.h"
#include "support/batches.h"
#include "unit/session/support.h"

namespace crossdock::session {
namespace {

/// All bodies of a table: each buffer padded to 64 bytes with zeros.
void expect_packed(const PublishedTable& table, TableStream& stream, std::size_t parts) {
  Outgoing out;
  for (const PublishedMessage& message : table.messages) {
    ASSERT_EQ(stream.peek(&out), ServerStream::State::kReady);
    if (message.has_body) {
      std::vector<std::byte> expected;
      for (const dissociated::RemoteBuffer& buffer : table.buffers_of(message)) {
        if (buffer.length == 0) continue;
        const std::byte* const data = table.readable_regions()[0]->data() + device::address_offset(buffer.address);
        expected.insert(expected.end(), data, data + buffer.length);
        expected.resize(align_up(expected.size(), 64));
      }
      std::vector<std::byte> packed;
      for (const ByteSpan part : out.parts) packed.insert(packed.end(), part.begin(), part.end());
      EXPECT_EQ(packed, expected);
      EXPECT_EQ(out.parts.size(), parts);
    }
    stream.pop();
  }
  EXPECT_EQ(stream.peek(&out), ServerStream::State::kEnd);
}

TEST(TableStreamTest, ABodyThatWasCopiedIsOnePart) {
  for (const std::int64_t rows : {1, 8, 1000, 4096}) {
    const auto table = publish_stream(*testing::number_stream(3, rows), Runtime(), {});
    TableStream stream(table, kByMessage);
    expect_packed(*table, stream, 1);
  }
}

TEST(TableStreamTest, PaddingIsZeroWhateverTheArenaHasThere) {
  Runtime runtime;
  const auto arena = runtime.make_arena();
  array::RecordBatch batch = testing::number_batch(0, 10);
  for (array::BufferView& buffer : batch.buffers) {
    const auto size = static_cast<std::size_t>(buffer.size);
    if (size == 0) continue;
    std::byte* const memory = arena->allocate(align_up(size, 64));
    std::memset(memory, 0xAA, align_up(size, 64));  // what the padding isn't
    std::memcpy(memory, buffer.data, size);
    buffer.data = memory;
  }
  batch.owner = arena;
  std::vector<array::RecordBatch> batches = {batch};
  testing::FunctionStream source(batch.schema, [&]() -> std::optional<array::RecordBatch> {
    if (batches.empty()) return std::nullopt;
    batches.clear();
    return batch;
  });
  const auto table = publish_stream(source, runtime, {});
  ASSERT_EQ(table->bytes_copied, 0U);
  TableStream stream(table, kByMessage);
  std::size_t buffers = 0;
  for (const dissociated::RemoteBuffer& buffer : table->buffers) buffers += buffer.length > 0 ? 1 : 0;
  expect_packed(*table, stream, 2 * buffers);
}

TEST(PackTest, JoinsWhatLiesTogether) {
  std::array<std::byte, 256> memory{};
  std::vector<ByteSpan> parts;
  pack(ByteSpan(memory).subspan(0, 64), &parts);
  pack({}, &parts);
  pack(ByteSpan(memory).subspan(64, 64), &parts);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].data(), memory.data());
  EXPECT_EQ(parts[0].size(), 128U);
  pack(ByteSpan(memory).subspan(192, 10), &parts);  // not behind it
  pack(ByteSpan(memory).subspan(202, 54), &parts);  // behind it, but padding is between
  EXPECT_EQ(parts.size(), 5U);
  std::size_t size = 0;
  for (const ByteSpan part : parts) size += part.size();
  EXPECT_EQ(size, 256U);
}

}  // namespace
}  // namespace crossdock::session
