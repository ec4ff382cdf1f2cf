#include "session/device_bodies.h"

#include <utility>

#include "core/bytes.h"
#include "dissociated/wire.h"

namespace crossdock::session {
namespace {

/// The deleter of a body on a device: who holds the body can tell by it where the body is.
struct OnDevice {
  std::shared_ptr<device::Context> context;
  std::shared_ptr<const void> memory;
  void operator()(const std::byte*) noexcept { memory.reset(); }
};

}  // namespace

DeviceBodies::DeviceBodies(std::shared_ptr<device::Context> context)
    : context_(std::move(context)), queue_(context_->make_queue()) {}

bool DeviceBodies::takes(std::uint64_t tag) const noexcept {
  return tag == dissociated::write_tag(static_cast<std::uint32_t>(tag), dissociated::BodyType::kPacked);
}

void DeviceBodies::write(std::byte* to, ByteSpan from) {
  const device::BufferRef there{.data = to,
                                .size = from.size(),
                                .device = context_->device(),
                                .kind = device::MemoryKind::kDevice,
                                .read_only = false};
  const device::BufferRef here{.data = const_cast<std::byte*>(from.data()),
                               .size = from.size(),
                               .device = {},
                               .kind = device::MemoryKind::kHost,
                               .read_only = true};
  context_->wait(context_->copy_recorded(there, here, queue_));
}

std::shared_ptr<device::Buffer> DeviceBodies::make(std::uint64_t size) {
  auto memory = std::make_shared<device::Buffer>(
      context_->allocate(size, device::MemoryKind::kDevice, device::Sharing::kExportable, queue_));
  context_->wait(context_->record(queue_));
  return memory;
}

std::shared_ptr<std::byte> DeviceBodies::allocate(std::uint64_t size) {
  if (size > kMostInBlock) {
    std::shared_ptr<device::Buffer> memory = make(size);
    auto* const start = static_cast<std::byte*>(memory->data());
    return {start, OnDevice{context_, std::move(memory)}};
  }
  const std::lock_guard lock(mutex_);
  if (block_ == nullptr || size > kBlock - used_) {
    block_ = make(kBlock);
    used_ = 0;
  }
  auto* const start = static_cast<std::byte*>(block_->data()) + used_;
  used_ += align_up(size, kBufferAlignment);
  return {start, OnDevice{context_, block_}};
}

std::shared_ptr<std::byte> DeviceBodies::lend(std::shared_ptr<device::Context> context, std::byte* memory,
                                              std::shared_ptr<const void> owner) {
  return {memory, OnDevice{std::move(context), std::move(owner)}};
}

std::shared_ptr<device::Context> DeviceBodies::context_of(const std::shared_ptr<const void>& owner) noexcept {
  const OnDevice* const body = std::get_deleter<OnDevice>(owner);
  return body != nullptr ? body->context : nullptr;
}

}  // namespace crossdock::session
