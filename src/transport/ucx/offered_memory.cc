#include "offered_memory.h"

#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include "control.h"
#include "crossdock/core/error.h"

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
  const auto base = reinterpret_cast<std::uintptr_t>(mapped->data());
  const std::lock_guard lock(mutex_);
  if (bases_.contains(number) || by_base_.contains(base)) {
    throw std::logic_error("ucx: region number " + std::to_string(number) +
                           " was already announced, or its memory was; retire it before it is used again");
  }
  const auto added = by_base_.emplace(base, std::move(mapped)).first;
  try {
    bases_.emplace(number, base);
  } catch (...) {
    by_base_.erase(added);
    throw;
  }
  return base;
}

void OfferedMemory::check(std::uint16_t number) const {
  const std::lock_guard lock(mutex_);
  if (bases_.contains(number)) return;
  throw std::logic_error("ucx: region number " + std::to_string(number) + " is retired, but was never announced");
}

void OfferedMemory::remove(std::uint16_t number) {
  std::shared_ptr<const device::Region> dropped_without_the_lock;
  const std::lock_guard lock(mutex_);
  const auto found = bases_.find(number);
  const auto region = by_base_.find(found->second);
  dropped_without_the_lock = std::move(region->second);
  by_base_.erase(region);
  bases_.erase(found);
}

bool OfferedMemory::empty() const {
  const std::lock_guard lock(mutex_);
  return bases_.empty();
}

const std::shared_ptr<const device::Region>* OfferedMemory::find(std::uint64_t address,
                                                                 std::uint64_t length) const noexcept {
  const auto behind = by_base_.upper_bound(address);
  if (behind == by_base_.begin()) return nullptr;
  const auto& [base, region] = *std::prev(behind);
  const bool inside = address - base <= region->size() && length <= region->size() - (address - base);
  return inside ? &region : nullptr;
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
      const auto* const region = find(part.address, part.length);
      if (region == nullptr) {
        throw ProtocolError("a request to read " + std::to_string(part.length) + " bytes at address " +
                            std::to_string(part.address) + " is outside every region that was announced");
      }
      parts.emplace_back(reinterpret_cast<const std::byte*>(part.address), part.length);
      if (answer->regions.empty() || answer->regions.back() != *region) answer->regions.push_back(*region);
    }
  }
  endpoint.send_answer(asked.id, parts, answer);
}

}  // namespace crossdock::transport::ucx
