#pragma once

#include <memory>
#include <utility>

namespace crossdock::detail {

/// Owns the implementation of a public class, a type that is complete in the class's source file alone. As
/// std::unique_ptr, but cheap to include: g++ 12 takes 8 ms for each type of which a header has a std::unique_ptr as a
/// member, and 0.1 ms for each of these.
template <class T>
class ImplPtr {
 public:
  /// Owns nothing.
  ImplPtr() noexcept = default;
  /// Takes what `owned` has. Implicit, so that std::make_unique() makes one.
  // NOLINTNEXTLINE(google-explicit-constructor)
  ImplPtr(std::unique_ptr<T> owned) noexcept : ptr_(owned.release()) {}
  ImplPtr(ImplPtr&& other) noexcept : ptr_(other.release()) {}
  /// Destroys what was owned before.
  ImplPtr& operator=(ImplPtr&& other) noexcept {
    destroy(std::exchange(ptr_, other.release()));
    return *this;
  }
  ~ImplPtr() { destroy(ptr_); }

  /// The implementation; null if there is none.
  T* get() const noexcept { return ptr_; }
  /// Accesses a member of it. Undefined if there is none.
  T* operator->() const noexcept { return ptr_; }
  /// The implementation. Undefined if there is none.
  T& operator*() const noexcept { return *ptr_; }
  /// Returns true if there is one.
  explicit operator bool() const noexcept { return ptr_ != nullptr; }
  /// Gives up ownership. Returns what was owned.
  T* release() noexcept { return std::exchange(ptr_, nullptr); }

 private:
  static void destroy(T* owned) noexcept {
    static_assert(sizeof(T) > 0, "the class's destructor and moves must be in its source file");
    delete owned;
  }

  T* ptr_ = nullptr;
};

}  // namespace crossdock::detail
