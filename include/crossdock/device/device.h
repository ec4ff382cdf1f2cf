#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "crossdock/core/export.h"

namespace crossdock::device {

/// The kind of device that memory belongs to: the numbers of the Arrow C Device data interface and of DLPack, which
/// agree. A number without a name here is passed on unchanged. It is an error only where the memory's bytes must be
/// read.
enum class DeviceType : std::int32_t {
  kCpu = 1,           ///< Ordinary memory of the host.
  kCuda = 2,          ///< Memory of a GPU of NVIDIA.
  kCudaHost = 3,      ///< Memory of the host that CUDA has pinned.
  kOpenCl = 4,        ///< Handles, not addresses.
  kVulkan = 7,        ///< Handles, not addresses.
  kMetal = 8,         ///< Handles, not addresses.
  kVpi = 9,           ///< Verilog simulator buffers.
  kRocm = 10,         ///< Memory of a GPU of AMD.
  kRocmHost = 11,     ///< Memory of the host that ROCm has pinned.
  kExtDev = 12,       ///< For tests: here, the simulated device "sim".
  kCudaManaged = 13,  ///< Memory that CUDA moves to the side that accesses it.
  kOneApi = 14,       ///< USM memory of SYCL, of any MemoryKind.
  kWebGpu = 15,       ///< Handles, not addresses.
  kHexagon = 16,      ///< Memory of a DSP of Qualcomm.
  kMaia = 17,         ///< Memory of an accelerator of Microsoft. DLPack 1.3.
  kTrainium = 18,     ///< Memory of an accelerator of Amazon. DLPack 1.3.
};

/// Returns the type's name in lower case, as in "cuda_managed"; empty for a number without a name.
CROSSDOCK_EXPORT std::string_view device_type_name(DeviceType type) noexcept;

/// The class of a device, in SYCL's words. Filter strings select by it.
enum class DeviceClass : std::uint8_t {
  kCpu,          ///< The host, or a CPU by way of SYCL.
  kGpu,          ///< A GPU.
  kAccelerator,  ///< Anything else.
};

/// Returns "cpu", "gpu" or "accelerator".
CROSSDOCK_EXPORT std::string_view device_class_name(DeviceClass device_class) noexcept;

/// Returns true if any host thread may read the memory as soon as the work that writes it is done.
CROSSDOCK_EXPORT bool host_readable(DeviceType type) noexcept;

/// One device. For the CPU, Arrow recommends the id -1; any id is accepted, and all CPU devices are the same device.
struct Device {
  DeviceType type = DeviceType::kCpu;  ///< Any number, also one without a name.
  std::int64_t id = -1;                ///< Among the devices of this type, as its driver counts them.

  /// Compares type and id; all CPU devices are equal.
  bool operator==(const Device& other) const noexcept {
    return type == other.type && (id == other.id || type == DeviceType::kCpu);
  }
};

/// Returns a device's text, as in "cpu", "cuda:1", "device type 77:0".
CROSSDOCK_EXPORT std::string to_string(const Device& device);

/// Returns the device that `text` names. Accepts the texts of to_string(); a name alone for its device 0 ("cuda"); and
/// "sim:1" for "ext_dev:1", the type of the simulated device. Doesn't check whether such a device exists. Throws
/// InvalidArgumentError, which says what is accepted.
CROSSDOCK_EXPORT Device parse_device(std::string_view text);

/// Says which side may access memory of a device. The names are SYCL's: in SYCL the device type alone doesn't
/// distinguish the kinds.
enum class MemoryKind : std::uint8_t {
  kDevice,  ///< Only the device may access it; a host access crashes.
  kHost,    ///< Host memory that the device can reach; for the host driver, ordinary memory.
  kShared,  ///< The driver moves it to the side that accesses it.
};

/// True if a device type's memory has addresses, to which offsets may be added: all types but those of OpenCL, Vulkan,
/// Metal and WebGPU, and unknown types.
CROSSDOCK_EXPORT bool has_addresses(DeviceType type) noexcept;

/// Returns the kind of memory that a device type alone implies: pinned and managed memory of CUDA and ROCm have device
/// types of their own.
CROSSDOCK_EXPORT MemoryKind kind_of(DeviceType type) noexcept;

/// True if the host may read memory of this device type once the work on it is over, managed memory included.
CROSSDOCK_EXPORT bool host_reaches(DeviceType type) noexcept;

/// A view of memory. It doesn't own the memory, and keeps nothing alive. A plain value.
struct BufferRef {
  void* data = nullptr;                 ///< The device's address. Only the driver may dereference it.
  std::uint64_t size = 0;               ///< Bytes.
  Device device{};                      ///< The device that `data` is an address of.
  MemoryKind kind = MemoryKind::kHost;  ///< Which side may access it.
  bool read_only = false;               ///< Nobody may write by this view; others may by theirs.

  /// Returns a view of `length` bytes from `offset` on. The caller has checked that they are inside.
  BufferRef slice(std::uint64_t offset, std::uint64_t length) const noexcept {
    BufferRef part = *this;
    part.data = static_cast<std::byte*>(data) + offset;
    part.size = length;
    return part;
  }
  /// Compares addresses alone, so both must be in one address space.
  bool overlaps(const BufferRef& other) const noexcept {
    const auto mine = reinterpret_cast<std::uintptr_t>(data);
    const auto its = reinterpret_cast<std::uintptr_t>(other.data);
    return mine < its ? its - mine < size : mine - its < other.size;
  }
  /// Returns the same view, for readers.
  BufferRef as_read_only() const noexcept {
    BufferRef view = *this;
    view.read_only = true;
    return view;
  }
};

/// Memory and its owner. Move-only. Dropping it frees the memory at once. So the caller makes sure that no queue still
/// works on the memory before it drops the Buffer, or passes it to Context::free(), which frees it after a queue's
/// work. Use it on one thread at a time; it may be dropped on any thread. One that was moved from is empty. Assigning
/// to it drops what it had.
class Buffer {
 public:
  /// Makes an empty buffer.
  Buffer() noexcept = default;
  /// For drivers. The memory is freed with `owner`'s last copy.
  Buffer(const BufferRef& memory, std::shared_ptr<void> owner) noexcept : memory_(memory), owner_(std::move(owner)) {}
  Buffer(Buffer&& other) noexcept
      : memory_(std::exchange(other.memory_, BufferRef{})), owner_(std::move(other.owner_)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    memory_ = std::exchange(other.memory_, BufferRef{});
    owner_ = std::move(other.owner_);
    return *this;
  }

  /// The memory as a view, which doesn't keep it.
  const BufferRef& ref() const noexcept { return memory_; }
  /// The device's address; null if it is empty.
  void* data() const noexcept { return memory_.data; }
  /// Bytes; 0 if it is empty.
  std::uint64_t size() const noexcept { return memory_.size; }
  /// The device that the memory belongs to.
  const Device& device() const noexcept { return memory_.device; }
  /// Returns true if nobody may write to the memory by this Buffer.
  bool read_only() const noexcept { return memory_.read_only; }
  /// Returns the owner, for memory that is passed on by a protocol with its own deleter. The Buffer is empty
  /// afterwards.
  std::shared_ptr<void> release() noexcept {
    memory_ = BufferRef{};
    return std::move(owner_);
  }

 private:
  BufferRef memory_;
  std::shared_ptr<void> owner_;
};

}  // namespace crossdock::device

template <>
struct std::hash<crossdock::device::Device> {
  std::size_t operator()(const crossdock::device::Device& device) const noexcept {
    const auto type = static_cast<std::uint64_t>(device.type);
    const auto id = device.type == crossdock::device::DeviceType::kCpu ? 0 : static_cast<std::uint64_t>(device.id);
    return std::hash<std::uint64_t>{}((type << 48) ^ id);
  }
};
