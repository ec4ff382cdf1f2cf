#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "core/bytes.h"

namespace crossdock::array {

/// The owner of a batch with some copied buffers: keeps the copies, and the rest of the batch's memory.
class Copies {
 public:
  std::shared_ptr<const void> rest{};

  /// Returns new memory, size > 0, which isn't zeroed.
  std::byte* add(std::int64_t size) {
    const std::uint64_t whole = align_up(static_cast<std::uint64_t>(size), static_cast<std::uint64_t>(kAlignment));
    std::unique_ptr<std::byte, AlignedDelete> owned(static_cast<std::byte*>(::operator new(whole, kAlignment)));
    buffers_.push_back(std::move(owned));
    return buffers_.back().get();
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct AlignedDelete {
    void operator()(std::byte* bytes) const noexcept { ::operator delete(bytes, kAlignment); }
  };

  std::vector<std::unique_ptr<std::byte, AlignedDelete>> buffers_;
};

}  // namespace crossdock::array
