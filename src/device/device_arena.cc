#include "crossdock/device/device_arena.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/fork.h"
#include "crossdock/core/error.h"
#include "device/region.h"
#include "device/region_address.h"

namespace crossdock::device {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 47;  // bytes: a process's address space
constexpr std::uint64_t kLargestStep = std::uint64_t{1} << 30;

}  // namespace

struct DeviceArena::Impl {
  struct Piece {
    std::shared_ptr<const Region> region;
    std::uint64_t used = kRegionStart;
  };

  ForkGuard made_in;
  std::shared_ptr<Context> context;
  std::uint64_t reserve = 0;
  mutable std::mutex mutex;
  std::vector<Piece> pieces;
  std::uint64_t total = 0;  // of all pieces
  std::uint64_t used = 0;
  bool frozen = false;

  /// Waits for the device: call it without the lock.
  Piece make_piece(std::uint64_t size) const {
    const Queue queue = context->make_queue();
    Buffer memory = context->allocate(kRegionStart + size, MemoryKind::kDevice, Sharing::kExportable, queue);
    context->wait(context->record(queue));  // parts are given out without a queue
    return {Region::of_device(context, std::move(memory))};
  }
  void add(Piece piece) {
    total += piece.region->size() - kRegionStart;
    pieces.push_back(std::move(piece));
  }
};

DeviceArena::DeviceArena(std::shared_ptr<Context> context, std::uint64_t reserve) : impl_(std::make_unique<Impl>()) {
  if (!context) throw InvalidArgumentError("an Arena of a device needs the device's context");
  if (context->identity().empty()) {
    throw UnsupportedError("an Arena can't be of " + to_string(context->device()) + ": the driver " +
                           std::string(context->driver_name()) +
                           " can't hand memory to other processes; use an Arena of the host, or publish the table from "
                           "memory of your own, which copies it once");
  }
  if (reserve > kMost) {
    throw InvalidArgumentError("an Arena can't reserve " + std::to_string(reserve) +
                               " bytes: more than a process's address space");
  }
  impl_->context = std::move(context);
  impl_->reserve = align_up(reserve, kBufferAlignment);
  if (impl_->reserve > 0) impl_->add(impl_->make_piece(impl_->reserve));
}

DeviceArena::~DeviceArena() = default;

const std::shared_ptr<Context>& DeviceArena::context() const noexcept { return impl_->context; }

BufferRef DeviceArena::allocate(std::uint64_t size) {
  impl_->made_in.check("this Arena");
  // Takes at least one byte, so that an empty column's pointer is inside a region, too.
  const std::uint64_t taken = size > kMost ? size : align_up(std::max<std::uint64_t>(size, 1), kBufferAlignment);
  const auto fits = [&](const Impl::Piece& piece) { return piece.region->size() - piece.used >= taken; };
  std::unique_lock lock(impl_->mutex);
  while (true) {
    if (impl_->frozen) throw ArenaFrozenError("this Arena was published; make a new one for the next table");
    if (const auto piece = std::ranges::find_if(impl_->pieces, fits); piece != impl_->pieces.end()) {
      const BufferRef place = piece->region->memory().slice(piece->used, size);
      piece->used += taken;
      impl_->used += taken;
      return place;
    }
    if (impl_->reserve > 0 || size > kMost) {
      const std::string room = impl_->reserve > 0 ? std::to_string(impl_->reserve - impl_->used) : "2^47";
      throw ResourceError("this Arena has room for " + room + " more bytes, but " + std::to_string(size) +
                          " were requested; make it with a larger `reserve`");
    }
    const std::uint64_t step = std::max(taken, std::min(impl_->total, kLargestStep));
    lock.unlock();
    Impl::Piece made = impl_->make_piece(step);
    lock.lock();
    impl_->add(std::move(made));
  }
}

std::uint64_t DeviceArena::size() const noexcept {
  const std::lock_guard lock(impl_->mutex);
  return impl_->used;
}

bool DeviceArena::frozen() const noexcept {
  const std::lock_guard lock(impl_->mutex);
  return impl_->frozen;
}

void DeviceArena::freeze() noexcept {
  const std::lock_guard lock(impl_->mutex);
  impl_->frozen = true;
}

std::shared_ptr<const Region> DeviceArena::region_of(const void* pointer, std::uint64_t size) const noexcept {
  const std::lock_guard lock(impl_->mutex);
  const auto found = std::ranges::find_if(
      impl_->pieces, [&](const Impl::Piece& piece) { return piece.region->contains(pointer, size); });
  return found == impl_->pieces.end() ? nullptr : found->region;
}

}  // namespace crossdock::device
