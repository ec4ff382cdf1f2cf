#include "session/compute_batch_statistics.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

#include "array/columns.h"
#include "array/view_layout.h"
#include "crossdock/core/error.h"
#include "device/region_address.h"
#include "session/column_buffer.h"

namespace crossdock::session {
namespace {

using array::BufferKind;

/// Elements that are read together: whole bytes of bits, and no more bytes than a ColumnBuffer gives at once.
constexpr std::int64_t kPiece = 1024;
static_assert(kPiece * 32 <= static_cast<std::int64_t>(ColumnBuffer::kMostRead));

std::size_t bytes_of_bits(std::int64_t n) { return static_cast<std::size_t>((n + 7) / 8); }

/// The buffers of a column in one batch.
struct ScannedColumn {
  const array::LayoutNode& layout;
  std::int64_t length;
  ColumnBuffer validity;
  std::vector<ColumnBuffer> data;  // the others
};

/// The validity of a piece of a column: bits, or null if nothing is null.
const std::byte* validity_of(ScannedColumn* column, std::int64_t first, std::int64_t n) {
  if (column->validity.size() == 0) return nullptr;
  return column->validity.read(static_cast<std::uint64_t>(first / 8), bytes_of_bits(n));
}

bool is_valid(const std::byte* validity, std::int64_t i) {
  return validity == nullptr || ((validity[i / 8] >> (i % 8)) & std::byte{1}) != std::byte{0};
}

std::int64_t count_nulls(const std::byte* validity, std::int64_t n) {
  if (validity == nullptr) return 0;
  std::int64_t valid = 0;
  for (std::int64_t at = 0; at < n; at += 8) {
    const auto bits = std::to_integer<unsigned>(validity[at / 8]);
    valid += std::popcount(n - at >= 8 ? bits : bits & ((1u << (n - at)) - 1));
  }
  return n - valid;
}

template <typename Offset>
void add_texts(ScannedColumn* column, const std::byte* validity, std::int64_t first, std::int64_t n,
               array::BoundsFinder* finder) {
  ColumnBuffer& offsets = column->data[0];
  ColumnBuffer& bytes = column->data[1];
  const auto count = static_cast<std::size_t>(n + 1);
  const std::byte* const numbers =
      offsets.read(static_cast<std::uint64_t>(first) * sizeof(Offset), count * sizeof(Offset));
  auto end = load_once<Offset>(numbers);
  for (std::int64_t i = 0; i < n; ++i) {
    const Offset begin = std::exchange(end, load_once<Offset>(numbers + static_cast<std::size_t>(i + 1) * sizeof end));
    if (!is_valid(validity, i)) continue;
    if (begin < 0 || end < begin) throw InvalidDataError("the offsets of a column of texts aren't in order");
    const auto size = std::min<std::size_t>(static_cast<std::size_t>(end - begin), array::kMostTextRead);
    const std::byte* const text = size == 0 ? nullptr : bytes.read(static_cast<std::uint64_t>(begin), size);
    finder->add(std::string_view(reinterpret_cast<const char*>(text), size));
  }
}

void add_views(ScannedColumn* column, const std::byte* validity, std::int64_t first, std::int64_t n,
               array::BoundsFinder* finder) {
  const std::byte* const views = column->data[0].read(static_cast<std::uint64_t>(first * array::kViewSize),
                                                      static_cast<std::size_t>(n * array::kViewSize));
  for (std::int64_t i = 0; i < n; ++i) {
    if (!is_valid(validity, i)) continue;
    const std::byte* const view = views + i * array::kViewSize;
    const auto length = load_once<std::int32_t>(view);
    if (length < 0) throw InvalidDataError("a view has a negative length");
    const auto size = std::min<std::size_t>(static_cast<std::size_t>(length), array::kMostTextRead);
    const std::byte* text = view + sizeof length;
    if (length > array::kMaxInline) {
      const auto buffer = load_once<std::int32_t>(view + 8);
      const auto offset = load_once<std::int32_t>(view + 12);
      if (buffer < 0 || offset < 0 || static_cast<std::size_t>(buffer) + 1 >= column->data.size()) {
        throw InvalidDataError("a view leads to a buffer that its column doesn't have");
      }
      text = column->data[static_cast<std::size_t>(buffer) + 1].read(static_cast<std::uint64_t>(offset), size);
    }
    finder->add(std::string_view(reinterpret_cast<const char*>(text), size));
  }
}

void add_piece(ScannedColumn* column, const std::byte* validity, std::int64_t first, std::int64_t n,
               array::BoundsFinder* finder) {
  const array::TypeLayout& type = column->layout.type;
  ColumnBuffer& data = column->data[0];
  switch (type.buffers[1]) {
    case BufferKind::kBits:
      return finder->add(data.read(static_cast<std::uint64_t>(first / 8), bytes_of_bits(n)), validity, n);
    case BufferKind::kOffsets32: return add_texts<std::int32_t>(column, validity, first, n, finder);
    case BufferKind::kOffsets64: return add_texts<std::int64_t>(column, validity, first, n, finder);
    case BufferKind::kViews: return add_views(column, validity, first, n, finder);
    default: {
      const auto width = static_cast<std::size_t>(type.width);
      finder->add(data.read(static_cast<std::uint64_t>(first) * width, static_cast<std::size_t>(n) * width), validity,
                  n);
    }
  }
}

BatchStatistics statistics_of(ScannedColumn column) {
  BatchStatistics result;
  const auto finder = array::BoundsFinder::make(*column.layout.field);
  for (std::int64_t first = 0; first < column.length; first += kPiece) {
    const std::int64_t n = std::min(kPiece, column.length - first);
    const std::byte* const validity = validity_of(&column, first, n);
    result.nulls += count_nulls(validity, n);
    add_piece(&column, validity, first, n, finder.get());
  }
  result.bounds = finder->finish();
  return result;
}

}  // namespace

std::vector<std::vector<BatchStatistics>> compute_batch_statistics(
    const PublishedTable& table, std::span<const std::shared_ptr<const device::Region>> regions,
    std::span<const int> columns) {
  std::vector<std::vector<BatchStatistics>> all(columns.size());
  ipc::BatchHeader header;
  for (const PublishedMessage& message : table.messages) {
    if (!message.has_body || message.dictionary.id >= 0) continue;
    ipc::Message::parse(table.metadata_of(message), {}, "a published batch").batch(*table.schema, &header);
    const std::vector<array::ColumnStart> starts = array::column_starts(*table.schema, header.variadic_counts);
    const auto buffers = table.buffers_of(message);
    const auto buffer_at = [&](std::size_t i) {
      const auto [address, size] = buffers[i];
      if (size == 0) return ColumnBuffer{};
      return ColumnBuffer(regions[device::address_region(address)], device::address_offset(address), size);
    };
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const array::ColumnStart& from = starts[static_cast<std::size_t>(columns[c])];
      const array::ColumnStart& to = starts[static_cast<std::size_t>(columns[c]) + 1];
      ScannedColumn column{
          table.schema->nodes()[from.node], header.nodes[from.node].length, buffer_at(from.buffer), {}};
      for (std::size_t i = from.buffer + 1; i < to.buffer; ++i) column.data.push_back(buffer_at(i));
      all[c].push_back(statistics_of(std::move(column)));
    }
  }
  for (const auto& region : table.regions) region->check_unchanged();
  return all;
}

}  // namespace crossdock::session
