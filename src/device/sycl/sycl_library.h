#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api.h"
#include "core/fork.h"
#include "core/library.h"
#include "crossdock/device/device.h"
#include "extents.h"
#include "queue_table.h"

namespace crossdock::device::sycl {

class SyclLibrary;

/// Deletes an object of SYCL, unless SYCL must not be called any more (in_child()).
template <typename Opaque>
struct Delete {
  const SyclLibrary* library = nullptr;
  void (*function)(Opaque*) = nullptr;
  void operator()(Opaque* ref) const noexcept;
};
template <typename Opaque>
using Owned = std::unique_ptr<Opaque, Delete<Opaque>>;

/// dpctl's library over the SYCL run time, opened. Every object made through it keeps it. Thread-safe.
class SyclLibrary : public std::enable_shared_from_this<SyclLibrary> {
 public:
  /// Opens the first of `candidates` that has all functions. Returns null if none has; then `tried` has a line for
  /// each.
  static std::shared_ptr<SyclLibrary> open(const std::vector<std::string>& candidates, std::vector<std::string>* tried);

  SyclLibrary(std::shared_ptr<Library> library, const Api& api);

  const Api& api() const noexcept { return api_; }
  /// Returns the version, as in "SYCL, DPC++ 2026.0.0".
  std::string version() const;
  /// Returns the path of the file that was opened.
  std::string path() const;

  /// Returns SYCL's root devices, in SYCL's order: a device's number is its index. Starts SYCL, once. Throws ForkError
  /// in a child of the process that started it.
  const std::vector<Owned<OpaqueDevice>>& devices();
  /// Returns the number of a device, or of the root device that it is a part of. Throws InvalidArgumentError for a
  /// device that SYCL doesn't list.
  int number_of(DeviceRef device) const;
  /// Returns the default context of the device `number`, which dpctl and libraries built on it use.
  std::shared_ptr<OpaqueContext> default_context(int number);
  /// Returns the kind of the memory at an address, in a context; none if the memory isn't bound to the context.
  std::optional<MemoryKind> kind_of(const void* pointer, ContextRef context) const noexcept;
  /// Returns the device that memory of a context is bound to; null if SYCL doesn't say.
  Owned<OpaqueDevice> device_of(void* pointer, ContextRef context) const noexcept;
  /// Returns true if SYCL must not be called: in a child of the process that started it.
  bool in_child() const noexcept { return guarded_.load(std::memory_order_acquire) && guard_->in_child(); }
  /// Throws ForkError in such a child.
  void check_fork() const;

  // Owners of SYCL's objects. They don't keep the library.
  Owned<OpaqueDevice> own(DeviceRef ref) const noexcept { return {ref, {this, api_.device_delete}}; }
  Owned<OpaqueDevices> own(DevicesRef ref) const noexcept { return {ref, {this, api_.devices_delete}}; }
  Owned<OpaqueContext> own(ContextRef ref) const noexcept { return {ref, {this, api_.context_delete}}; }
  Owned<OpaqueQueue> own(QueueRef ref) const noexcept { return {ref, {this, api_.queue_delete}}; }
  Owned<OpaqueEvent> own(EventRef ref) const noexcept { return {ref, {this, api_.event_delete}}; }
  /// Returns a copy of a text of dpctl, and deletes the text.
  std::string take(const char* text) const;

  /// Throws SystemError: SYCL failed while `doing` (as in "making a queue"). The reason is in SYCL's own messages only.
  [[noreturn]] void fail(const std::string& doing) const;
  /// Returns `ref`, owned. Throws like fail() if it is null.
  template <typename Opaque>
  Owned<Opaque> check(Opaque* ref, const char* doing) const {
    if (ref == nullptr) fail(doing);
    return own(ref);
  }

  /// Turns an owned object into one that several holders share. They keep the library too.
  template <typename Opaque>
  std::shared_ptr<Opaque> share(Owned<Opaque> owned) {
    const auto drop = owned.get_deleter();
    return {owned.release(), [self = shared_from_this(), drop](Opaque* ref) { drop(ref); }};
  }

  /// The same for a context. Equal contexts are one object as long as it is held, so that pointers can be compared.
  std::shared_ptr<OpaqueContext> share_context(Owned<OpaqueContext> owned);

  /// Returns the queues that are held.
  QueueTable& queues() noexcept { return queues_; }
  /// Returns the memory that was allocated by this driver.
  Extents& extents() noexcept { return extents_; }

 private:
  std::shared_ptr<Library> library_;
  Api api_;
  std::once_flag started_;
  std::vector<Owned<OpaqueDevice>> devices_;
  std::optional<ForkGuard> guard_;
  std::atomic<bool> guarded_{false};  ///< guard_ is set and may be read.
  std::mutex contexts_mutex_;
  std::vector<std::weak_ptr<OpaqueContext>> contexts_;  ///< Those that are shared.
  QueueTable queues_;
  Extents extents_;
};

template <typename Opaque>
void Delete<Opaque>::operator()(Opaque* ref) const noexcept {
  if (!library->in_child()) function(ref);
}

}  // namespace crossdock::device::sycl
