#include "ipc/realign.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::ipc {
namespace {

constexpr std::uint64_t kCopyAlignment = 64;

using Owners = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;

std::uintptr_t address_of(const array::BufferView& view) noexcept {
  return reinterpret_cast<std::uintptr_t>(view.data);
}

bool all_suit_everything(const std::vector<array::BufferView>& views) noexcept {
  std::uintptr_t bits = 0;
  for (const array::BufferView& view : views) bits |= address_of(view);
  return bits % array::kMostAlignment == 0;
}

}  // namespace

std::uint64_t Realigner::find(const array::Schema& schema, const BatchHeader& header, const char* where,
                              std::vector<array::BufferView>* views) {
  misaligned_.clear();
  std::uint64_t total = 0;
  array::BufferCursor at(header.variadic_counts);
  for (const array::LayoutNode& node : schema.nodes()) {
    at.enter(node);
    for (std::uint8_t i = 0; i < node.type.n_buffers; ++i) {
      array::BufferView& view = (*views)[at.first() + i];
      if (address_of(view) % array::element_alignment(node.type.buffers[i], node.type.width) == 0) continue;
      total += align_up(static_cast<std::uint64_t>(view.size), kCopyAlignment);
      if (total > static_cast<std::uint64_t>(most_)) {
        throw InvalidDataError(std::string(where) +
                               ": copies of misaligned buffers would take more than the limit of " +
                               std::to_string(most_) + " bytes (ipc::Limits::max_decompressed_bytes)");
      }
      misaligned_.push_back(&view);
    }
  }
  return total;
}

std::shared_ptr<const void> Realigner::realign(const array::Schema& schema, const BatchHeader& header,
                                               std::shared_ptr<const void> owner, const char* where,
                                               std::vector<array::BufferView>* views) {
  if (all_suit_everything(*views)) return owner;
  const std::uint64_t total = find(schema, header, where, views);
  if (misaligned_.empty()) return owner;
  const std::shared_ptr<std::byte> copies = memory_.take(static_cast<std::size_t>(total));
  std::byte* to = copies.get();
  for (array::BufferView* view : misaligned_) {
    if (view->size > 0) std::memcpy(to, view->data, static_cast<std::size_t>(view->size));
    view->data = to;
    to += align_up(static_cast<std::uint64_t>(view->size), kCopyAlignment);
  }
  return std::make_shared<Owners>(copies, std::move(owner));
}

}  // namespace crossdock::ipc
