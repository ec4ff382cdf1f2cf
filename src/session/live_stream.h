#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "session/region_pool.h"
#include "session/server_stream.h"
#include "session/source_reader.h"

namespace crossdock::session {

/// The connection's side of a live stream: supplies messages and takes their memory back. I/O thread only.
class LiveStream final : public ServerStream {
 public:
  LiveStream(std::shared_ptr<SourceReader> source, const WayAnswer& way)
      : ServerStream(way), source_(std::move(source)) {}
  ~LiveStream() override { source_->abandon(); }

  State peek(Outgoing* out) override;
  void pop() override;
  const std::shared_ptr<const device::Region>& region(std::uint32_t index) const override;
  void returned(std::uint32_t slot, std::uint32_t n) noexcept override;
  void over() noexcept override { source_->stop(); }
  void pass_by_value() noexcept override { source_->pass_by_value(); }
  int look_again_ms() const noexcept override { return source_->has_begun() ? 0 : source_->begin_limit_ms(); }
  bool has_dropped() const noexcept override { return source_->pool().has_dropped(); }
  void take_dropped(std::vector<std::uint32_t>* regions) override;

 private:
  struct Slot {
    RegionPool::Block block;
    std::uint32_t out = 0;
  };
  std::shared_ptr<SourceReader> source_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::uint32_t current_ = 0;
  bool has_current_ = false;
  bool current_by_value_ = false;
  mutable std::vector<std::shared_ptr<const device::Region>> regions_;
};

}  // namespace crossdock::session
