#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api.h"
#include "crossdock/core/fork.h"
#include "crossdock/core/library.h"
#include "crossdock/device/buffer.h"
#include "extents.h"
#include "queue_table.h"

namespace crossdock::device::sycl {

class SyclLibrary;

/// Deletes an object of SYCL, unless SYCL must not be called any more.
template <typename Opaque>
struct Delete {
  const SyclLibrary* library = nullptr;
  void (*function)(Opaque*) = nullptr;
  void operator()(Opaque* ref) const noexcept;
};
template <typename Opaque>
using Owned = std::unique_ptr<Opaque, Delete<Opaque>>;

/// dpctl's library over the SYCL run time, opened. Everything made through it keeps it. Thread-safe.
class SyclLibrary : public std::enable_shared_from_this<SyclLibrary> {
 public:
  /// Of `candidates`, the first that has all functions; null if none, and a line for each in `tried`.
  static std::shared_ptr<SyclLibrary> open(const std::vector<std::string>& candidates, std::vector<std::string>* tried);

  SyclLibrary(std::shared_ptr<Library> library, const Api& api);

  const Api& api() const noexcept { return api_; }
  /// As in "SYCL, DPC++ 2026.0.0".
  std::string version() const;
  /// The path of the file that was opened.
  std::string path() const;

  /// SYCL's root devices, in SYCL's order: a device's number is its place. Starts SYCL, once. Throws ForkError in a
  /// child of the process that did.
  const std::vector<Owned<OpaqueDevice>>& devices();
  /// The number of a device, or of the root device that it is a part of. Throws InvalidArgumentError for one that SYCL
  /// doesn't list.
  int number_of(DeviceRef device) const;
  /// What kind of memory an address is of in a context; none if it isn't bound to that.
  std::optional<MemoryKind> kind_of(const void* pointer, ContextRef context) const noexcept;
  /// The device that memory of a context is bound to; null if SYCL doesn't say.
  Owned<OpaqueDevice> device_of(void* pointer, ContextRef context) const noexcept;
  /// True where SYCL must not be called: in a child of the process that started it.
  bool in_child() const noexcept { return guarded_.load(std::memory_order_acquire) && guard_->in_child(); }
  /// Throws ForkError in such a child.
  void check_fork() const;

  // Owners. They don't keep the library.
  Owned<OpaqueDevice> own(DeviceRef ref) const noexcept { return {ref, {this, api_.device_delete}}; }
  Owned<OpaqueDevices> own(DevicesRef ref) const noexcept { return {ref, {this, api_.devices_delete}}; }
  Owned<OpaqueContext> own(ContextRef ref) const noexcept { return {ref, {this, api_.context_delete}}; }
  Owned<OpaqueQueue> own(QueueRef ref) const noexcept { return {ref, {this, api_.queue_delete}}; }
  Owned<OpaqueEvent> own(EventRef ref) const noexcept { return {ref, {this, api_.event_delete}}; }
  /// A text of dpctl's, which is deleted.
  std::string take(const char* text) const;

  /// Throws SystemError: SYCL refused `doing` ("making a queue"), and says why only to who sees its messages.
  [[noreturn]] void fail(const std::string& doing) const;
  /// `ref`, owned. Throws as fail() if it is null.
  template <typename Opaque>
  Owned<Opaque> check(Opaque* ref, const char* doing) const {
    if (ref == nullptr) fail(doing);
    return own(ref);
  }

  /// The same for several holders, which keep the library too.
  template <typename Opaque>
  std::shared_ptr<Opaque> share(Owned<Opaque> owned) {
    const auto drop = owned.get_deleter();
    return {owned.release(), [self = shared_from_this(), drop](Opaque* ref) { drop(ref); }};
  }

  /// The queues that anybody holds.
  QueueTable& queues() noexcept { return queues_; }
  /// The memory that was allocated through us.
  Extents& extents() noexcept { return extents_; }

 private:
  std::shared_ptr<Library> library_;
  Api api_;
  std::once_flag started_;
  std::vector<Owned<OpaqueDevice>> devices_;
  std::optional<ForkGuard> guard_;
  std::atomic<bool> guarded_{false};  ///< guard_ is there to be read.
  QueueTable queues_;
  Extents extents_;
};

template <typename Opaque>
void Delete<Opaque>::operator()(Opaque* ref) const noexcept {
  if (!library->in_child()) function(ref);
}

}  // namespace crossdock::device::sycl
