#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/bytes.h"

namespace crossdock::dissociated {

/// A private copy of a message's bytes, 8-aligned. Keeps its memory when it is filled again.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : data_(std::move(other.data_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  void assign(ByteSpan bytes) {
    if (bytes.size() > capacity_) {
      data_.reset();  // first, so that the old and the new memory are never allocated together
      capacity_ = 0;
      const std::size_t wanted = align_up(bytes.size(), 512);
      data_ = std::make_unique_for_overwrite<std::byte[]>(wanted);
      capacity_ = wanted;
    }
    size_ = bytes.size();
    if (size_ != 0) std::memcpy(data_.get(), bytes.data(), size_);
  }
  ByteSpan bytes() const noexcept { return {data_.get(), size_}; }
  std::size_t capacity() const noexcept { return capacity_; }

 private:
  static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= 8, "flatbuffers are read in place, 8-aligned");
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// Buffers that are free for reuse; the one used last is on top. The pool keeps one of any size, so that a stream of
/// large bodies reuses its memory. In addition it keeps no more than a few MiB, so that the memory of a burst is freed
/// again.
class BufferPool {
 public:
  Buffer copy_of(ByteSpan bytes) {
    Buffer buffer;
    if (!spares_.empty() && !bytes.empty()) {
      buffer = std::move(spares_.back());
      spares_.pop_back();
      kept_ -= buffer.capacity();
    }
    buffer.assign(bytes);
    return buffer;
  }

  void put(Buffer&& buffer) {
    Buffer taken = std::move(buffer);  // freed here if it isn't kept
    if (taken.capacity() == 0) return;
    if (!spares_.empty() && kept_ + taken.capacity() > kKeep) return;
    kept_ += taken.capacity();
    spares_.push_back(std::move(taken));
  }

 private:
  static constexpr std::size_t kKeep = std::size_t{4} << 20;
  std::vector<Buffer> spares_;
  std::size_t kept_ = 0;
};

}  // namespace crossdock::dissociated
