#include "crossdock/array/build_memory.h"

#include <algorithm>
#include <limits>
#include <new>
#include <string>

#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::int64_t kLeast = 1024;

std::shared_ptr<std::byte> allocate(std::int64_t bytes) {
  void* const memory = ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{kAlignment}, std::nothrow);
  if (memory == nullptr) {
    throw ResourceError("there is no memory for a column of " + std::to_string(bytes) + " bytes");
  }
  return {static_cast<std::byte*>(memory),
          [](std::byte* pointer) { ::operator delete (pointer, std::align_val_t{kAlignment}); }};
}

}  // namespace

void GrowingBuffer::reserve(std::int64_t count, std::int64_t width, std::int64_t besides) {
  if (count < 0) throw InvalidArgumentError("there is no room to reserve for " + std::to_string(count) + " elements");
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(count, width, &bytes) || __builtin_add_overflow(bytes, size_ + besides, &bytes)) {
    throw ResourceError("a column can't have " + std::to_string(count) + " elements more");
  }
  if (bytes > capacity_) grow(bytes);
}

void GrowingBuffer::grow_for(std::int64_t more) {
  if (more > std::numeric_limits<std::int64_t>::max() / 2 - size_) {
    throw ResourceError("a column can't have " + std::to_string(more) + " bytes more");
  }
  grow(std::max({size_ + more, 2 * capacity_, kLeast}));
}

void GrowingBuffer::grow(std::int64_t bytes) {
  std::shared_ptr<void> owner = arena_;
  std::byte* to = nullptr;
  if (arena_) {
    to = arena_->allocate(static_cast<std::uint64_t>(bytes));
  } else {
    auto memory = allocate(bytes);
    to = memory.get();
    owner = std::move(memory);
  }
  if (size_ > 0) std::memcpy(to, data_, static_cast<std::size_t>(size_));
  owner_ = std::move(owner);
  data_ = to;
  capacity_ = bytes;
}

void GrowingBuffer::take(std::byte* bytes, std::int64_t count, std::shared_ptr<void> owner) {
  if (arena_) {
    size_ = 0;
    append(bytes, count);
    return;
  }
  owner_ = std::move(owner);
  data_ = bytes;
  size_ = capacity_ = count;
}

BufferView GrowingBuffer::finish(std::vector<std::shared_ptr<const void>>* owners) {
  const BufferView view = size_ == 0 ? BufferView{} : BufferView{data_, size_};
  if (size_ != 0) owners->push_back(owner_);
  owner_.reset();
  data_ = nullptr;
  size_ = capacity_ = 0;
  return view;
}

void GrowingBits::push_set(std::int64_t count) {
  for (; count > 0 && size_ % 8 != 0; --count) push(true);
  const std::int64_t bytes = (count + 7) / 8;
  if (bytes == 0) return;
  std::memset(bytes_.extend(bytes), 0xff, static_cast<std::size_t>(bytes));
  size_ += count;
  if (size_ % 8 != 0) bytes_.data()[size_ / 8] = static_cast<std::byte>((1U << (size_ % 8)) - 1);
}

}  // namespace crossdock::array
