#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "crossdock/device/driver.h"
#include "device/memory_handle.h"
#include "device/region.h"

namespace crossdock::device {

/// Exportable allocations by address. It outlives its context: buffers remove themselves when they are freed.
class HostExports {
 public:
  void add(const std::shared_ptr<Region>& region);
  void remove(const std::byte* start) noexcept;
  /// Returns the region that these bytes lie in, or null.
  std::shared_ptr<Region> find(const void* pointer, std::uint64_t size) const;

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::weak_ptr<Region>> regions_;
};

class HostContext final : public Context {
 public:
  HostContext() : exports_(std::make_shared<HostExports>()) {}

  std::string_view driver_name() const noexcept override { return "host"; }
  Device device() const noexcept override { return {}; }

  Buffer allocate(std::uint64_t size, MemoryKind kind, Sharing sharing, const Queue& queue) override;
  Buffer adopt(const BufferRef& memory, std::shared_ptr<void> owner) override;
  void free(Buffer&& buffer, const Queue& queue) override;
  void copy(const BufferRef& to, const BufferRef& from, const Queue& queue) override;
  PointerInfo describe(const void* pointer) const override;
  bool accessible(const BufferRef& memory, const Queue& queue) const override;
  MemoryHandle export_memory(const BufferRef& memory) override;
  Buffer import_memory(MemoryHandle handle, const std::string& where) override;

  Queue make_queue() override;
  Queue wrap_queue(NativeQueue native, std::shared_ptr<void> owner) override;
  void order_after(const Queue& queue, const Event& event) override;

  Event wrap_event(NativeEvent native, std::shared_ptr<void> owner) override;
  Event record(const Queue& queue) override;
  bool query(const Event& event) override;
  void wait(const Event& event) override;

 private:
  std::shared_ptr<HostExports> exports_;
};

}  // namespace crossdock::device
