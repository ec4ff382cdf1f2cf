#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace crossdock::testing {

/// Bytes that end where memory ends: the page behind them may not be read, so that one byte too far is SIGSEGV, with
/// every compiler and allocator.
class Guarded {
 public:
  explicit Guarded(std::size_t size) : size_(size) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    mapped_ = (size + page - 1) / page * page + page;
    start_ =
        static_cast<std::byte*>(::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::mprotect(start_ + mapped_ - page, page, PROT_NONE);
    data_ = start_ + mapped_ - page - size;
  }
  template <class T>
  static Guarded of(std::span<const T> values) {
    Guarded made(values.size_bytes());
    if (!values.empty()) std::memcpy(made.data(), values.data(), values.size_bytes());
    return made;
  }
  Guarded(Guarded&& other) noexcept
      : start_(other.start_), data_(other.data_), size_(other.size_), mapped_(other.mapped_) {
    other.start_ = nullptr;
  }
  Guarded& operator=(Guarded&&) = delete;
  ~Guarded() {
    if (start_ != nullptr) ::munmap(start_, mapped_);
  }

  std::byte* data() const noexcept { return data_; }
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(size_); }
  /// Number `i` of integers of type T.
  template <class T>
  void put(std::size_t i, T value) const noexcept {
    std::memcpy(data_ + i * sizeof(T), &value, sizeof value);
  }

 private:
  std::byte* start_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t mapped_ = 0;
};

}  // namespace crossdock::testing
