#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace crossdock {

enum class MappingKind : std::uint8_t {
  kMemory = 0,  ///< Shared memory of this process, or of a peer.
  kFile = 1,    ///< A file, which other processes may truncate.
};

/// Registers one read-only mapping with the fault report (core/debug.h), for as long as it lives. Movable. Making and
/// dropping one takes no lock, so that a fork leaves no lock taken. It never fails: if no memory is left for a record,
/// the report just doesn't know the mapping.
class MappingRecord {
 public:
  MappingRecord() noexcept = default;
  /// `label` names the content of the mapping, as in "region 3 of shm:name" or a file's path. Keeps its first 240
  /// bytes.
  MappingRecord(const void* start, std::size_t size, MappingKind kind, std::string_view label) noexcept;
  MappingRecord(MappingRecord&& other) noexcept : slot_(std::exchange(other.slot_, 0)) {}
  MappingRecord(const MappingRecord&) = delete;
  MappingRecord& operator=(MappingRecord other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~MappingRecord() { release(); }

 private:
  void release() noexcept;
  std::uint32_t slot_ = 0;  // its number from 1 on; 0: none
};

/// A copy of a record.
struct RecordedMapping {
  static constexpr std::size_t kLongestLabel = 240;
  std::uintptr_t start = 0;
  std::size_t size = 0;
  MappingKind kind = MappingKind::kMemory;
  std::size_t label_size = 0;
  char label[kLongestLabel] = {};
};

/// Finds the recorded mapping that `address` lies in. Async-signal-safe: takes no lock and no memory.
bool find_mapping(std::uintptr_t address, RecordedMapping* found) noexcept;

}  // namespace crossdock
