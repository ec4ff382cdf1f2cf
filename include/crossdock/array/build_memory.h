#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/core/export.h"
#include "crossdock/device/arena.h"

/// The memory of columns that are being built (builder.h).
namespace crossdock::array {

/// Bytes that grow at the end, aligned to 64, on the heap or in an arena. It grows by doubling. An arena frees nothing
/// until it goes, so memory that was outgrown stays there unused: reserve() what will be needed. Use it on one thread
/// at a time.
class CROSSDOCK_EXPORT GrowingBuffer {
 public:
  /// `arena`: null for the heap.
  explicit GrowingBuffer(std::shared_ptr<device::Arena> arena) noexcept : arena_(std::move(arena)) {}

  /// The number of bytes that were appended.
  std::int64_t size() const noexcept { return size_; }
  /// The first byte; null before any memory was needed. Valid until the next call that appends, reserves or takes.
  const std::byte* data() const noexcept { return data_; }
  /// The same for writing.
  std::byte* data() noexcept { return data_; }
  /// Makes room for `count` more elements of `width` bytes, and `besides` bytes. Throws InvalidArgumentError (a
  /// negative count), ResourceError, ArenaFrozenError.
  void reserve(std::int64_t count, std::int64_t width = 1, std::int64_t besides = 0);
  /// Appends `bytes` bytes, and returns where they are; their content isn't defined. Throws ResourceError,
  /// ArenaFrozenError.
  std::byte* extend(std::int64_t bytes) {
    // Memory of an arena that was published must not be written to, though there is room in it: growing throws.
    if (bytes > capacity_ - size_ || (arena_ != nullptr && arena_->frozen())) [[unlikely]]
      grow_for(bytes);
    std::byte* const at = data_ + size_;
    size_ += bytes;
    return at;
  }
  /// Appends a copy of `count` bytes, which must not be bytes of this buffer. Throws as extend().
  void append(const void* bytes, std::int64_t count) {
    if (count > 0) std::memcpy(extend(count), bytes, static_cast<std::size_t>(count));
  }
  /// Appends the bytes of one value, at any alignment. Throws as extend().
  template <class T>
  void push(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(extend(sizeof value), &value, sizeof value);
  }
  /// Takes memory that `owner` keeps, as the whole content, without a copy. What is appended later moves it to memory
  /// of its own. In an arena, copies it there instead.
  void take(std::byte* bytes, std::int64_t count, std::shared_ptr<void> owner);

  /// Returns the bytes, and adds what keeps them to `*owners`. The buffer is empty afterwards.
  BufferView finish(std::vector<std::shared_ptr<const void>>* owners);

 private:
  void grow(std::int64_t bytes);
  void grow_for(std::int64_t more);

  std::shared_ptr<device::Arena> arena_;
  std::shared_ptr<void> owner_;
  std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
  std::int64_t capacity_ = 0;
};

/// Bits that grow at the end, least significant first, as in Arrow's bitmaps. Their memory is a GrowingBuffer. Use it
/// on one thread at a time.
class CROSSDOCK_EXPORT GrowingBits {
 public:
  /// `arena`: null for the heap.
  explicit GrowingBits(std::shared_ptr<device::Arena> arena) noexcept : bytes_(std::move(arena)) {}
  /// The number of bits.
  std::int64_t size() const noexcept { return size_; }
  /// Makes room for `bits` more. Throws as GrowingBuffer::reserve().
  void reserve(std::int64_t bits) { bytes_.reserve(bits < 0 ? bits : bits / 8, 1, 1); }
  /// Appends one bit. Throws ResourceError, ArenaFrozenError, and so do all calls that append. The bits behind it in
  /// its byte are 0.
  void push(bool bit) {
    if (size_ % 8 == 0) {
      bytes_.push(std::byte{0});
    } else {
      bytes_.extend(0);  // throws if the arena was published
    }
    if (bit) bytes_.data()[size_ / 8] |= std::byte{1} << (size_ % 8);
    ++size_;
  }
  /// Appends `count` bits that are set.
  void push_set(std::int64_t count);
  /// Returns the bytes with the bits, absent if there are none, and adds what keeps them to `*owners`. There are no
  /// bits afterwards.
  BufferView finish(std::vector<std::shared_ptr<const void>>* owners) {
    size_ = 0;
    return bytes_.finish(owners);
  }

 private:
  GrowingBuffer bytes_;
  std::int64_t size_ = 0;
};

}  // namespace crossdock::array
