#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "crossdock/core/error.h"
#include "device/sim.h"
#include "unit/device/support.h"

namespace crossdock::device {

inline constexpr Device kZero{.type = DeviceType::kExtDev, .id = 0};
inline constexpr Device kOne{.type = DeviceType::kExtDev, .id = 1};

/// Two simulated devices without delay.
class SimTest : public ::testing::Test {
 protected:
  std::shared_ptr<SimDriver> driver_ = make_sim_driver({.devices = 2});
  std::shared_ptr<Context> context_ = driver_->open(kZero);
  Queue queue_ = context_->make_queue();  // "queue 1 of ext_dev:0"
  Queue other_ = context_->make_queue();  // "queue 2 of ext_dev:0"

  static BufferRef host(std::string& bytes) {
    return {.data = bytes.data(), .size = bytes.size(), .device = {}, .kind = MemoryKind::kHost, .read_only = false};
  }
  Buffer allocate(std::uint64_t size, MemoryKind kind = MemoryKind::kDevice, Sharing sharing = Sharing::kPrivate) {
    return context_->allocate(size, kind, sharing, queue_);
  }
  /// Memory that every queue may use: the host has waited for it.
  Buffer ready(std::uint64_t size, MemoryKind kind = MemoryKind::kDevice, Sharing sharing = Sharing::kPrivate) {
    Buffer buffer = allocate(size, kind, sharing);
    finish(queue_);
    return buffer;
  }
  Event recorded(const Queue& queue) {
    Event event = context_->record(queue);
    return event;
  }
  void finish(const Queue& queue) { context_->wait(recorded(queue)); }
  void upload(const BufferRef& to, std::string bytes) {
    context_->copy(to, host(bytes).as_read_only(), queue_);
    finish(queue_);
  }
  std::string download(const BufferRef& from) {
    std::string bytes(from.size, '?');
    context_->copy(host(bytes), from, queue_);
    finish(queue_);
    return bytes;
  }
  /// What waiting for all that is on the queue throws; "" if nothing.
  std::string failure_of(const Queue& queue) {
    try {
      finish(queue);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
  /// Keeps a queue at work for as long as nothing but the delay would.
  void slow(std::chrono::milliseconds delay) { driver_->set_delay(delay); }
};

}  // namespace crossdock::device
