#pragma once

#include <memory>
#include <string>
#include <utility>

#include "crossdock/device/driver.h"
#include "device/memory_handle.h"
#include "world.h"

namespace crossdock::device::sim {

/// The native queue, which Queue::native() points to.
struct QueueHandle {
  QueueHandle(std::shared_ptr<World> in, std::shared_ptr<WorkQueue> what);
  QueueHandle(const QueueHandle&) = delete;
  QueueHandle& operator=(const QueueHandle&) = delete;
  ~QueueHandle();

  ForkGuard made_in;
  std::shared_ptr<World> world;
  std::shared_ptr<WorkQueue> queue;
};

/// Returns the queue behind a native queue. Throws InvalidArgumentError if this world has no such queue.
WorkQueue& queue_of(void* native, const World& world);

class SimContext final : public Context {
 public:
  SimContext(std::shared_ptr<World> world, Device device) : world_(std::move(world)), device_(device) {}

  std::string_view driver_name() const noexcept override { return "sim"; }
  Device device() const noexcept override { return device_; }
  /// Its number: simulated devices of the same number in two processes pass for one.
  std::string identity() const override { return std::to_string(device_.id); }

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
  WorkQueue& check_queue(const Queue& queue) const;
  /// Returns the signal of an event of this world; null for an event of another library or another driver.
  Signal* ours(crossdock_sim_event* native) const noexcept;
  /// Notes that the host has seen an event of another library to be over. Throws if `status` says that it failed.
  void see_other(crossdock_sim_event& event, std::int32_t status);

  std::shared_ptr<World> world_;
  Device device_;
};

}  // namespace crossdock::device::sim
