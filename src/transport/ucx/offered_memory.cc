#include "offered_memory.h"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "device/region_address.h"

namespace crossdock::transport::ucx {

/// What an answer on its way keeps.
struct OfferedMemory::Answer {
  explicit Answer(std::shared_ptr<std::atomic<std::size_t>> waiting) : waiting_(std::move(waiting)) { ++*waiting_; }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer() { --*waiting_; }

  std::vector<std::shared_ptr<const device::Region>> regions;

 private:
  const std::shared_ptr<std::atomic<std::size_t>> waiting_;
};

std::uint64_t OfferedMemory::add(std::uint16_t number, const std::shared_ptr<const device::Region>& region) {
  std::shared_ptr<const device::Region> mapped = device::readable(region, "memory to be read over ucx");
  const std::lock_guard lock(mutex_);
  if (!regions_.try_emplace(number, std::move(mapped)).second) {
    throw std::logic_error("ucx: region number " + std::to_string(number) +
                           " was already announced; retire it before it is used again");
  }
  return device::make_address(number, 0);
}

void OfferedMemory::check(std::uint16_t number) const {
  const std::lock_guard lock(mutex_);
  if (regions_.contains(number)) return;
  throw std::logic_error("ucx: region number " + std::to_string(number) + " is retired, but was never announced");
}

void OfferedMemory::remove(std::uint16_t number) {
  std::shared_ptr<const device::Region> dropped_without_the_lock;
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(number);
  dropped_without_the_lock = std::move(found->second);
  regions_.erase(found);
}

bool OfferedMemory::empty() const {
  const std::lock_guard lock(mutex_);
  return regions_.empty();
}

/// Returns the region that all bytes of a part are in, or null.
const std::shared_ptr<const device::Region>* OfferedMemory::find(const ReadRequest::Part& part) const noexcept {
  const auto found = regions_.find(device::address_region(part.address));
  if (found == regions_.end()) return nullptr;
  const std::uint64_t offset = device::address_offset(part.address);
  const std::uint64_t size = found->second->size();
  return offset <= size && part.length <= size - offset ? &found->second : nullptr;
}

void OfferedMemory::answer(Endpoint& endpoint, ByteSpan request) const {
  ReadRequest asked;
  if (!decode(request, &asked)) throw ProtocolError("a request to read memory is malformed");
  if (*waiting_ >= kMaxUnanswered) {
    throw ProtocolError("more than " + std::to_string(kMaxUnanswered) + " requests to read memory are unanswered");
  }
  const auto answer = std::make_shared<Answer>(waiting_);
  std::vector<ByteSpan> parts;
  parts.reserve(asked.count());
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < asked.count(); ++i) {
      const ReadRequest::Part part = asked.part(i);
      if (part.length == 0) throw ProtocolError("a request to read memory has a part without bytes");
      const auto* const region = find(part);
      if (region == nullptr) {
        throw ProtocolError("a request to read " + std::to_string(part.length) + " bytes at address " +
                            std::to_string(part.address) + " is outside every region that was announced");
      }
      parts.emplace_back((*region)->data() + device::address_offset(part.address), part.length);
      if (answer->regions.empty() || answer->regions.back() != *region) answer->regions.push_back(*region);
    }
  }
  endpoint.send_answer(asked.id, parts, answer);
}

}  // namespace crossdock::transport::ucx
