#include "offered_memory.h"

#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "device/region_address.h"

namespace crossdock::transport::ucx {

/// What an answer on its way keeps.
struct OfferedMemory::Answer {
  Answer(std::shared_ptr<UnderWay> under_way, std::size_t parts) : under_way_(std::move(under_way)), parts_(parts) {
    ++under_way_->answers;
    under_way_->parts += parts_;
  }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer() {
    --under_way_->answers;
    under_way_->parts -= parts_;
  }

  std::vector<std::shared_ptr<const device::Region>> regions;  // each once

 private:
  const std::shared_ptr<UnderWay> under_way_;
  const std::size_t parts_;
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

OfferedMemory::Answered OfferedMemory::answer(Endpoint& endpoint, ByteSpan request) const {
  ReadRequest asked;
  if (!decode(request, &asked)) throw ProtocolError("a request to read memory is malformed");
  if (under_way_->answers >= kMaxUnanswered) {
    throw ProtocolError("more than " + std::to_string(kMaxUnanswered) + " requests to read memory are unanswered");
  }
  const auto answer = std::make_shared<Answer>(under_way_, asked.count());
  Answered answered{.parts = asked.count()};
  std::vector<ByteSpan> parts;
  parts.reserve(asked.count());
  std::unordered_set<const device::Region*> kept;
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
      answered.bytes += part.length;
      const bool same = !answer->regions.empty() && answer->regions.back() == *region;
      if (!same && kept.insert(region->get()).second) answer->regions.push_back(*region);
    }
  }
  endpoint.send_answer(asked.id, parts, answer);
  return answered;
}

}  // namespace crossdock::transport::ucx
