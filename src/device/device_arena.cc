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

namespace crossdock::device {
namespace {

constexpr std::uint64_t kAlignment = 64;  // also the unused start of a region: address 0 means no buffer
constexpr std::uint64_t kLargestStep = std::uint64_t{1} << 30;

}  // namespace

struct DeviceArena::Impl {
  struct Piece {
    std::shared_ptr<const Region> region;
    std::uint64_t used = kAlignment;
  };

  ForkGuard made_in;
  std::shared_ptr<Context> context;
  std::uint64_t reserve = 0;
  mutable std::mutex mutex;
  std::vector<Piece> pieces;
  std::uint64_t total = 0;  // of all pieces
  std::uint64_t used = 0;
  bool frozen = false;

  Piece& add_piece(std::uint64_t size) {
    const Queue queue = context->make_queue();
    Buffer memory = context->allocate(kAlignment + size, MemoryKind::kDevice, Sharing::kExportable, queue);
    context->wait(context->record(queue));  // whoever gets a part of it knows no queue to be ordered after
    pieces.push_back({Region::of_device(context, std::move(memory))});
    total += size;
    return pieces.back();
  }
};

DeviceArena::DeviceArena(std::shared_ptr<Context> context, std::uint64_t reserve) : impl_(std::make_unique<Impl>()) {
  if (context->identity().empty()) {
    throw UnsupportedError("an Arena can't be of " + to_string(context->device()) + ": the driver " +
                           std::string(context->driver_name()) +
                           " can't hand memory to other processes; use an Arena of the host, or publish the table from "
                           "memory of your own, which copies it once");
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 47;
  if (reserve > kMost) {
    throw InvalidArgumentError("an Arena can't reserve " + std::to_string(reserve) +
                               " bytes: more than a process's address space");
  }
  impl_->context = std::move(context);
  impl_->reserve = align_up(reserve, kAlignment);
  if (impl_->reserve > 0) impl_->add_piece(impl_->reserve);
}

DeviceArena::~DeviceArena() = default;

const std::shared_ptr<Context>& DeviceArena::context() const noexcept { return impl_->context; }

BufferRef DeviceArena::allocate(std::uint64_t size) {
  impl_->made_in.check("this Arena");
  const std::lock_guard lock(impl_->mutex);
  if (impl_->frozen) {
    throw ArenaFrozenError("this Arena was published; make a new one for the next table");
  }
  // Takes at least one byte, so that an empty column's pointer is inside a region, too.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 47;
  const std::uint64_t taken = size > kMost ? size : align_up(std::max<std::uint64_t>(size, 1), kAlignment);
  const auto fits = [&](const Impl::Piece& piece) { return piece.region->size() - piece.used >= taken; };
  auto piece = std::ranges::find_if(impl_->pieces, fits);
  if (piece == impl_->pieces.end()) {
    if (impl_->reserve > 0 || size > kMost) {
      const std::string room = impl_->reserve > 0 ? std::to_string(impl_->reserve - impl_->used) : "2^47";
      throw ResourceError("this Arena has room for " + room + " more bytes, but " + std::to_string(size) +
                          " were requested; make it with a larger `reserve`");
    }
    impl_->add_piece(std::max(taken, std::min(impl_->total, kLargestStep)));
    piece = impl_->pieces.end() - 1;
  }
  const BufferRef place = piece->region->memory().slice(piece->used, size);
  piece->used += taken;
  impl_->used += taken;
  return place;
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
