#include "session/server_stream.h"

#include <array>
#include <cstring>
#include <stdexcept>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "device/leak.h"
#include "device/region_address.h"

namespace crossdock::session {
namespace {

constexpr std::array<std::byte, 64> kZeros{};

// Returns the buffer with its padding if the region has zeros there, as published tables have: a body is then one part.
ByteSpan with_padding(ByteSpan buffer, const device::Region& region) {
  const std::size_t missing = align_up(buffer.size(), kZeros.size()) - buffer.size();
  const std::byte* const end = buffer.data() + buffer.size();
  const bool there = region.kind() == device::RegionKind::kFrozen && region.contains(end, missing) &&
                     std::memcmp(end, kZeros.data(), missing) == 0;
  return there ? ByteSpan{buffer.data(), buffer.size() + missing} : buffer;
}

// Like pack(), without the padding: it would be in memory of the host.
void pack_on_device(ByteSpan buffer, std::vector<ByteSpan>* parts) {
  if (!parts->empty()) {
    ByteSpan& last = parts->back();
    if (last.size() % kZeros.size() == 0 && last.data() + last.size() == buffer.data()) {
      last = {last.data(), last.size() + buffer.size()};
      return;
    }
  }
  parts->push_back(buffer);
}

// Counts one more reader of the table until the last owner of the result is dropped.
std::shared_ptr<const void> count_reader(const std::shared_ptr<const PublishedTable>& table) {
  ++table->readers;
  return {table.get(), [table](const void*) { --table->readers; }};
}

}  // namespace

void pack(ByteSpan buffer, std::vector<ByteSpan>* parts) {
  if (buffer.empty()) return;
  if (!parts->empty() && parts->back().data() + parts->back().size() == buffer.data()) {
    parts->back() = {parts->back().data(), parts->back().size() + buffer.size()};
  } else {
    parts->push_back(buffer);
  }
  const std::size_t over = buffer.size() % kZeros.size();
  if (over != 0) parts->push_back(ByteSpan(kZeros).first(kZeros.size() - over));
}

TableStream::TableStream(std::shared_ptr<const PublishedTable> table, const WayAnswer& way,
                         std::optional<std::vector<std::uint32_t>> messages)
    : ServerStream(way),
      table_(std::move(table)),
      reading_(count_reader(table_)),
      readable_(way.way == transport::Way::kMessage ? &table_->readable_regions() : nullptr),
      messages_(std::move(messages)) {
  if (table_->regions.size() > 1 && readable_ == nullptr) {
    leases_.resize(table_->messages.size());
    region_leases_.resize(table_->regions.size());
    dropped_.reserve(table_->regions.size());
  }
  for (const auto& region : table_->regions) {
    if (region->kind() == device::RegionKind::kFile) file_ = region.get();
  }
}

template <typename Act>
void TableStream::for_each_region(std::size_t message, Act act) const {
  for (const dissociated::RemoteBuffer& buffer : table_->buffers_of(table_->messages[message])) {
    if (buffer.length != 0) act(device::address_region(buffer.address));
  }
}

void TableStream::pop() {
  const std::size_t sent = current();
  if (!leases_.empty() && table_->messages[sent].has_body) {
    for_each_region(sent, [&](std::uint16_t region) {
      ++leases_[sent];
      ++region_leases_[region];
    });
  }
  ++next_;
}

void TableStream::returned(std::uint32_t message, std::uint32_t n) noexcept {
  if (leases_.empty() || (leases_[message] -= n) != 0) return;
  for_each_region(message, [&](std::uint16_t region) {
    if (--region_leases_[region] == 0 && over_) dropped_.push_back(region);
  });
}

void TableStream::lost() noexcept {
  for (const auto& region : table_->regions) region->never_reuse();
  // Their makers would use them again.
  if (!table_->received.empty()) device::leak(table_);
}

void TableStream::over() noexcept {
  over_ = true;
  for (std::size_t i = 0; i < region_leases_.size(); ++i) {
    if (region_leases_[i] == 0) dropped_.push_back(static_cast<std::uint32_t>(i));
  }
}

void TableStream::take_dropped(std::vector<std::uint32_t>* regions) {
  regions->insert(regions->end(), dropped_.begin(), dropped_.end());
  dropped_.clear();
}

ServerStream::State TableStream::peek(Outgoing* out) {
  if (next_ == size()) {
    // Bodies that were sent by value were read from the file until now.
    if (file_ != nullptr && readable_ != nullptr) file_->check_unchanged();
    return State::kEnd;
  }
  if (table_->breaking) {
    throw FileChangedError("the file behind this stream is about to change: another process is waiting to write to it");
  }
  if (file_ != nullptr) file_->check_unchanged();
  const std::size_t index = current();
  const PublishedMessage& message = table_->messages[index];
  *out = {table_->metadata_of(message),
          message.has_body,
          table_->buffers_of(message),
          static_cast<std::uint32_t>(leases_.empty() ? 0 : index),
          message.rows,
          message.bytes};
  if (readable_ != nullptr && message.has_body) {
    pack_body(message);
    out->by_value = true;
    out->parts = parts_;
    out->device = device_;
    out->keep = reading_;
  }
  return State::kReady;
}

// Throws if the device is lost. A transport may end the process if it can't read the memory, as UCX does.
void TableStream::check_device(device::Context& context) {
  if (!queue_ || queue_->device() != context.device()) queue_ = context.make_queue();
  context.query(context.record(*queue_));
}

void TableStream::pack_body(const PublishedMessage& message) {
  parts_.clear();
  device_ = {};
  for (const dissociated::RemoteBuffer& buffer : table_->buffers_of(message)) {
    if (buffer.length == 0) continue;
    const device::Region& region = *(*readable_)[device::address_region(buffer.address)];
    const ByteSpan bytes{region.data() + device::address_offset(buffer.address), buffer.length};
    if (!region.contains(bytes.data(), bytes.size()))
      throw std::logic_error("a published buffer is outside its region");
    if (region.kind() == device::RegionKind::kDevice) {
      if (parts_.empty()) {  // all buffers of a message are on one device
        device_ = region.context()->device();
        check_device(*region.context());
      }
      pack_on_device(bytes, &parts_);
    } else if (message.unpadded) {
      parts_.push_back(bytes);
    } else {
      pack(with_padding(bytes, region), &parts_);
    }
  }
}

}  // namespace crossdock::session
