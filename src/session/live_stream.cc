#include "session/live_stream.h"

namespace crossdock::session {

ServerStream::State LiveStream::peek(Outgoing* out) {
  const SourceReader::Message* message = source_->front();
  if (message == nullptr) {
    if (source_->ended()) return State::kEnd;
    if (!source_->has_begun()) source_->check_begins();
    return source_->pool().starved() ? State::kStarved : State::kLater;
  }
  if (message->by_value) {
    *out = {message->metadata, true, message->buffers, 0, message->rows, message->bytes};
    out->by_value = true;
    out->parts = message->parts;
    out->keep = source_->take_keep();
    current_by_value_ = true;
    return State::kReady;
  }
  if (!has_current_) {
    if (free_slots_.empty()) {
      free_slots_.reserve(slots_.size() + 1);  // so that returned() never allocates
      free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    current_ = free_slots_.back();
    free_slots_.pop_back();
    Slot& slot = slots_[current_];
    slot.block = message->block;
    slot.out = 0;
    for (const dissociated::RemoteBuffer& buffer : message->buffers) slot.out += buffer.length != 0;
    has_current_ = true;
  }
  *out = {message->metadata, message->has_body, message->buffers, current_, message->rows, message->bytes};
  return State::kReady;
}

void LiveStream::pop() {
  has_current_ = false;
  if (!std::exchange(current_by_value_, false) && slots_[current_].out == 0) free_slots_.push_back(current_);
  source_->pop();
}

const std::shared_ptr<const device::Region>& LiveStream::region(std::uint32_t index) const {
  if (regions_.size() <= index) regions_.resize(std::size_t{index} + 1);
  if (!regions_[index]) regions_[index] = source_->pool().region(index);
  return regions_[index];
}

void LiveStream::take_dropped(std::vector<std::uint32_t>* regions) {
  const std::size_t before = regions->size();
  source_->pool().take_dropped(regions);
  for (std::size_t i = before; i < regions->size(); ++i) {
    if ((*regions)[i] < regions_.size()) regions_[(*regions)[i]] = nullptr;
  }
}

void LiveStream::returned(std::uint32_t slot, std::uint32_t n) noexcept {
  if ((slots_[slot].out -= n) != 0) return;
  source_->free(slots_[slot].block);
  free_slots_.push_back(slot);
}

}  // namespace crossdock::session
