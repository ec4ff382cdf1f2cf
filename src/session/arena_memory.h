#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "crossdock/device/arena.h"
#include "device/region.h"
#include "transport/body_memory.h"

namespace crossdock::session {

/// Receives bodies into an arena. The arena keeps all of them: no memory is reused.
class ArenaMemory final : public transport::BodyMemory {
 public:
  explicit ArenaMemory(std::shared_ptr<device::Arena> arena) noexcept : arena_(std::move(arena)) {}
  std::shared_ptr<std::byte> allocate(std::uint64_t size) override { return {arena_, arena_->allocate(size)}; }

 private:
  std::shared_ptr<device::Arena> arena_;
};

}  // namespace crossdock::session
