#include "signal.h"

#include "crossdock/core/error.h"
#include "world.h"

namespace crossdock::device::sim {

namespace {

/// Calls `function`, which returns a status. Returns the code of what it throws, below 0, and keeps the text.
template <typename Function>
std::int32_t guarded(Signal& signal, Function function) noexcept {
  auto code = ErrorCode::kResource;
  try {
    return function();
  } catch (const Error& error) {
    code = error.code();
    signal.note(error.what());
  } catch (const std::exception& error) {
    signal.note(error.what());
  }
  return -static_cast<std::int32_t>(code);
}

}  // namespace

Signal::Signal(std::shared_ptr<World> world) noexcept
    : crossdock_sim_event{.magic = CROSSDOCK_SIM_EVENT_MAGIC,
                          .version = CROSSDOCK_SIM_EVENT_VERSION,
                          .size = sizeof(crossdock_sim_event),
                          .query = query_entry,
                          .wait = wait_entry,
                          .last_error = error_entry},
      world_(std::move(world)) {}

Signal* Signal::from(crossdock_sim_event* native) noexcept {
  return native != nullptr && native->wait == wait_entry ? static_cast<Signal*>(native) : nullptr;
}

void Signal::note(const std::string& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (!errors_.empty() && errors_.back() == error) return;
  try {
    errors_.push_back(error);
  } catch (const std::bad_alloc&) {  // the status says that it failed
  }
}

std::int32_t Signal::query_entry(crossdock_sim_event* self) noexcept {
  auto& signal = static_cast<Signal&>(*self);
  return guarded(signal, [&] { return signal.world_->query(signal) ? 1 : 0; });
}

std::int32_t Signal::wait_entry(crossdock_sim_event* self) noexcept {
  auto& signal = static_cast<Signal&>(*self);
  return guarded(signal, [&] {
    signal.world_->wait(signal);
    return 0;
  });
}

const char* Signal::error_entry(crossdock_sim_event* self) noexcept {
  auto* signal = static_cast<Signal*>(self);
  const std::lock_guard lock(signal->mutex_);
  return signal->errors_.empty() ? nullptr : signal->errors_.back().c_str();
}

crossdock_sim_event* check_native(void* native) {
  if (reinterpret_cast<std::uintptr_t>(native) % alignof(crossdock_sim_event) != 0) {
    throw InvalidArgumentError("the sim driver was given an event that isn't a crossdock_sim_event: it isn't aligned");
  }
  auto* event = static_cast<crossdock_sim_event*>(native);
  if (event->magic != CROSSDOCK_SIM_EVENT_MAGIC) {
    throw InvalidArgumentError(
        "the sim driver was given an event that isn't a crossdock_sim_event: its magic number is wrong; "
        "crossdock/device/sim_event.h has the structure of a sync_event of EXT_DEV");
  }
  if (event->version < 1 || event->size < sizeof(crossdock_sim_event) || event->query == nullptr ||
      event->wait == nullptr || event->last_error == nullptr) {
    throw InvalidArgumentError("the sim driver was given a crossdock_sim_event of version " +
                               std::to_string(event->version) + " and " + std::to_string(event->size) +
                               " bytes, which lacks members of version 1");
  }
  return event;
}

}  // namespace crossdock::device::sim
