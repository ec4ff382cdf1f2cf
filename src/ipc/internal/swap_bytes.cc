#include "ipc/internal/swap_bytes.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "array/view_layout.h"
#include "core/bytes.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"

namespace crossdock::ipc {
namespace {

using array::BufferKind;
using array::LayoutNode;
using array::TypeId;

/// The widths of the numbers in one element, in their order; none if there is nothing to swap.
struct Element {
  std::uint8_t n = 0;
  std::uint8_t widths[3] = {};
  bool is_view = false;
};

Element one(std::int32_t width) noexcept {
  if (width <= 1) return {};
  return {1, {static_cast<std::uint8_t>(width)}, false};
}

Element element_of(const LayoutNode& layout, BufferKind kind) noexcept {
  switch (kind) {
    case BufferKind::kFixed:
      if (layout.id == TypeId::kFixedSizeBinary) return {};
      if (layout.id == TypeId::kIntervalDayTime) return {2, {4, 4}, false};
      if (layout.id == TypeId::kIntervalMonthDayNano) return {3, {4, 4, 8}, false};
      return one(layout.type.width);
    case BufferKind::kOffsets32: return one(4);
    case BufferKind::kOffsets64: return one(8);
    case BufferKind::kViews: return {0, {}, true};
    case BufferKind::kValidity:
    case BufferKind::kBits:
    case BufferKind::kBytes:
    case BufferKind::kTypeIds: return {};
    default: return one(array::element_width(kind, 0));
  }
}

void swap_views(std::byte* at, std::int64_t size) noexcept {
  for (std::byte* const end = at + size / array::kViewSize * array::kViewSize; at != end; at += array::kViewSize) {
    std::reverse(at, at + 4);
    if (load_le<std::int32_t>(at) <= array::kMaxInline) continue;  // the bytes themselves follow
    // The first four bytes of the text stay unchanged; then follow the number of the buffer and the offset in it.
    std::reverse(at + 8, at + 12);
    std::reverse(at + 12, at + 16);
  }
}

template <std::size_t Width>
void swap_numbers(std::byte* at, std::int64_t size) noexcept {
  for (std::byte* const end = at + size / static_cast<std::int64_t>(Width) * static_cast<std::int64_t>(Width);
       at != end; at += Width) {
    std::reverse(at, at + Width);
  }
}

void swap_mixed(const Element& element, std::byte* at, std::int64_t size) noexcept {
  std::int64_t width = 0;
  for (std::uint8_t i = 0; i < element.n; ++i) width += element.widths[i];
  for (std::int64_t left = size; left >= width; left -= width) {
    for (std::uint8_t i = 0; i < element.n; ++i) {
      std::reverse(at, at + element.widths[i]);
      at += element.widths[i];
    }
  }
}

void swap(const Element& element, std::byte* at, std::int64_t size) noexcept {
  if (element.is_view) return swap_views(at, size);
  if (element.n != 1) return swap_mixed(element, at, size);
  switch (element.widths[0]) {
    case 2: return swap_numbers<2>(at, size);
    case 4: return swap_numbers<4>(at, size);
    case 8: return swap_numbers<8>(at, size);
    case 16: return swap_numbers<16>(at, size);
    default: return swap_mixed(element, at, size);
  }
}

/// Calls `visit(index of the buffer, element)` for each buffer with something to swap.
template <class Visit>
void for_each_swapped(const array::Schema& schema, const BatchHeader& header, const Visit& visit) {
  array::BufferCursor at(header.variadic_counts);
  for (const LayoutNode& layout : schema.nodes()) {
    at.enter(layout);
    for (std::size_t b = 0; b < layout.type.n_buffers; ++b) {
      const Element element = element_of(layout, layout.type.buffers[b]);
      if (element.n > 0 || element.is_view) visit(at.first() + b, element);
    }
  }
}

}  // namespace

std::shared_ptr<const void> swap_bytes(const array::Schema& schema, const BatchHeader& header, const Limits& limits,
                                       const char* where, OutputMemory* memory, std::shared_ptr<const void> owner,
                                       std::vector<array::BufferView>* views) {
  std::uint64_t total = 0;
  for_each_swapped(schema, header, [&](std::size_t i, const Element&) {
    total += align_up(static_cast<std::uint64_t>((*views)[i].size), kBufferAlignment);
    // Several buffers of a hostile body may be the same bytes.
    if (total > static_cast<std::uint64_t>(limits.max_decompressed_bytes)) {
      throw InvalidDataError(std::string(where) + ": swapping the body's bytes would take more than the limit of " +
                             std::to_string(limits.max_decompressed_bytes) + " bytes");
    }
  });
  if (total == 0) return owner;
  const std::shared_ptr<std::byte> block = memory->take(total);
  std::byte* to = block.get();
  for_each_swapped(schema, header, [&](std::size_t i, const Element& element) {
    array::BufferView& view = (*views)[i];
    if (view.size == 0) return;
    std::memcpy(to, view.data, static_cast<std::size_t>(view.size));
    swap(element, to, view.size);
    view.data = to;
    to += align_up(static_cast<std::uint64_t>(view.size), kBufferAlignment);
  });
  return std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(block, std::move(owner));
}

}  // namespace crossdock::ipc
