#include "crossdock/exchange/dlpack.h"

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/sync.h"
#include "device/interface.h"

namespace crossdock::exchange {
namespace {

using array::Extents;
using array::Tensor;
using array::TypeCode;
using device::DeviceType;

constexpr const char* kDLPackName = "a DLPack tensor";

/// Everything that an exported struct needs, in one allocation: shape and strides follow it.
template <class Managed>
struct Exported {
  Managed managed;
  std::shared_ptr<const void> owner;

  static_assert(sizeof(Managed) % sizeof(std::int64_t) == 0);
  std::int64_t* extents() noexcept { return reinterpret_cast<std::int64_t*>(this + 1); }
  static void destroy(Managed* self) noexcept {
    auto* const exported = static_cast<Exported*>(self->manager_ctx);
    exported->~Exported();
    ::operator delete(exported);
  }
};

template <class Managed>
Managed* give_away(const Tensor& tensor) {
  using Whole = Exported<Managed>;
  const auto ndim = static_cast<std::size_t>(tensor.ndim());
  void* const memory = ::operator new(sizeof(Whole) + 2 * ndim * sizeof(std::int64_t));
  auto* const exported = new (memory) Whole{Managed{}, tensor.owner};
  describe_dlpack(tensor, exported->extents(), exported->extents() + ndim, &exported->managed.dl_tensor);
  exported->managed.manager_ctx = exported;
  exported->managed.deleter = &Whole::destroy;
  return &exported->managed;
}

template <class Managed>
struct Owner {
  Managed* managed = nullptr;

  Owner() = default;
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
  }
};

template <class Managed>
Tensor take_over(Managed* managed, std::uint64_t flags) {
  Tensor tensor = view_dlpack(managed->dl_tensor, flags);
  auto owner = std::make_shared<Owner<Managed>>();
  owner->managed = managed;  // Nothing throws from here on.
  tensor.owner = std::move(owner);
  return tensor;
}

[[noreturn]] void refuse(const std::string& what, const char* instead) {
  throw ExportError("DLPack " + what + "; " + instead);
}

}  // namespace

array::ElementType element_type_of(const DLDataType& dtype, std::uint64_t flags) {
  array::ElementType type;
  type.code = static_cast<TypeCode>(dtype.code);
  type.bits = dtype.bits;
  type.lanes = dtype.lanes;
  type.padded = dtype.bits < 8 && (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0;
  const int bits = int{dtype.bits} * dtype.lanes;
  if (bits == 0) throw InvalidDataError(std::string(kDLPackName) + ": its elements have no bits");
  if (bits % 8 != 0 && !type.padded) {
    throw UnsupportedTypeError(std::string(kDLPackName) + ": elements of " + std::to_string(bits) +
                               " bits are packed, which strides in bytes can't address; store each in a byte of its "
                               "own (DLPack's flag IS_SUBBYTE_TYPE_PADDED)");
  }
  return type;
}

Tensor view_dlpack(const DLTensor& dl, std::uint64_t flags) {
  if (dl.ndim < 0 || dl.ndim > array::kMaxTensorDimensions) {
    throw InvalidDataError(std::string(kDLPackName) + ": " + std::to_string(dl.ndim) + " dimensions; 0 to " +
                           std::to_string(array::kMaxTensorDimensions) + " are possible");
  }
  if (dl.ndim > 0 && dl.shape == nullptr)
    throw InvalidDataError(std::string(kDLPackName) + ": its shape is a null pointer");
  Tensor tensor;
  tensor.type = element_type_of(dl.dtype, flags);
  tensor.device = {static_cast<DeviceType>(dl.device.device_type), dl.device.device_id};
  tensor.kind = device::kind_of(tensor.device.type);
  tensor.read_only = (flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  tensor.extents = Extents(dl.ndim);
  const auto shape = tensor.extents.shape();
  const auto strides = tensor.extents.strides();
  const std::int64_t itemsize = tensor.type.itemsize();
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] = dl.shape[d];
  if (dl.strides != nullptr) {
    for (std::size_t d = 0; d < strides.size(); ++d) {
      // The stride of a dimension of at most one element has no meaning: producers leave any value there.
      if (!checked_multiply(dl.strides[d], itemsize, &strides[d])) {
        if (shape[d] > 1) throw InvalidDataError(std::string(kDLPackName) + ": its strides overflow");
        strides[d] = itemsize;
      }
    }
  } else {
    array::set_row_major(&tensor, kDLPackName);
  }
  tensor.data = dl.data;
  if (dl.data != nullptr && dl.byte_offset > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(dl.data)) {
    throw InvalidDataError(std::string(kDLPackName) + ": its byte_offset overflows");
  }
  if (dl.data != nullptr) tensor.advance(static_cast<std::int64_t>(dl.byte_offset));
  array::check_tensor(&tensor, kDLPackName);
  return tensor;
}

Tensor import_dlpack(DLManagedTensorVersioned* managed) {
  if (managed == nullptr) throw InvalidArgumentError(std::string(kDLPackName) + ": a null pointer");
  if (managed->version.major != DLPACK_MAJOR_VERSION) {
    throw UnsupportedTypeError(std::string(kDLPackName) + " of version " + std::to_string(managed->version.major) +
                               "." + std::to_string(managed->version.minor) +
                               "; version 1 is supported: ask for it with max_version=(1, 3)");
  }
  return take_over(managed, managed->flags);
}

Tensor import_dlpack(DLManagedTensor* managed) {
  if (managed == nullptr) throw InvalidArgumentError(std::string(kDLPackName) + ": a null pointer");
  return take_over(managed, 0);
}

device::Device dlpack_device(const device::Device& device) noexcept {
  const bool numbered = device.type != DeviceType::kCpu && device::interface_of(device.type).device == device.type;
  return {device.type, numbered ? device.id : 0};
}

void check_dlpack(const Tensor& tensor, bool legacy) {
  tensor.check_usual_context("DLPack");
  if (tensor.type.described || tensor.type.swapped) [[unlikely]] {
    refuse("can't describe elements of type " + array::element_type_name(tensor.type),
           "convert them to numbers in native byte order, or use the array interface");
  }
  if (tensor.mask) [[unlikely]] {
    throw UnsupportedError(
        "DLPack has no validity mask; fill or drop the masked elements, or export the tensor as Arrow data");
  }
  if (legacy && tensor.read_only) [[unlikely]] {
    refuse("before version 1.0 can't mark memory as read-only", "ask for max_version=(1, 0) or later, or make a copy");
  }
  if (legacy && tensor.type.padded) [[unlikely]]
    refuse("before version 1.0 can't mark elements as padded", "ask for max_version=(1, 2) or later");
  const std::int64_t itemsize = tensor.type.itemsize();
  // Numbers mostly have a power of two as their size: a mask is then faster than a division for each dimension.
  const bool power = (itemsize & (itemsize - 1)) == 0;
  for (std::size_t d = 0; d < tensor.strides().size(); ++d) {
    const std::int64_t rest = power ? tensor.strides()[d] & (itemsize - 1) : tensor.strides()[d] % itemsize;
    if (tensor.shape()[d] > 1 && rest != 0) [[unlikely]] {
      refuse("can't describe strides that are not a multiple of the element's size (" +
                 std::to_string(tensor.strides()[d]) + " of " + std::to_string(itemsize) + " bytes)",
             "make a contiguous copy");
    }
  }
  const std::int64_t id = dlpack_device(tensor.device).id;
  if (id != static_cast<std::int32_t>(id)) [[unlikely]]
    refuse("can't describe device ids of more than 32 bits", "export the tensor as Arrow data");
}

void describe_dlpack(const Tensor& tensor, std::int64_t* shape, std::int64_t* strides, DLTensor* out) noexcept {
  const std::int64_t itemsize = tensor.type.itemsize();
  const std::size_t ndim = tensor.shape().size();
  std::int64_t before = 0;  // bytes from the lowest element to the first
  for (std::size_t d = 0; d < ndim; ++d) {
    shape[d] = tensor.shape()[d];
    strides[d] = tensor.strides()[d] / itemsize;
    if (strides[d] < 0 && shape[d] > 1) [[unlikely]]
      before -= tensor.strides()[d] * (shape[d] - 1);
  }
  if (before != 0 && (tensor.data == nullptr || !device::has_addresses(tensor.device.type))) before = 0;
  out->data = static_cast<std::byte*>(tensor.data) - before;
  out->device.device_type = static_cast<DLDeviceType>(tensor.device.type);
  out->device.device_id = static_cast<std::int32_t>(dlpack_device(tensor.device).id);
  out->ndim = tensor.ndim();
  out->dtype = {static_cast<std::uint8_t>(tensor.type.code), tensor.type.bits, tensor.type.lanes};
  out->shape = shape;
  out->strides = strides;
  out->byte_offset = tensor.byte_offset + static_cast<std::uint64_t>(before);
}

namespace {

void check_order(const Tensor& tensor, Order order) {
  if (order == Order::kMade || tensor.ready()) [[likely]]
    return;
  throw InvalidArgumentError(
      "work on the tensor may still be pending, and DLPack carries no event; order the consumer's queue after it, or "
      "wait, first");
}

}  // namespace

DLManagedTensorVersioned* export_dlpack(const Tensor& tensor, Order order, bool copied) {
  check_dlpack(tensor, false);
  check_order(tensor, order);
  std::uint64_t flags = 0;
  if (tensor.read_only) flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  if (copied) flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
  if (tensor.type.padded) flags |= DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  DLManagedTensorVersioned* const managed = give_away<DLManagedTensorVersioned>(tensor);
  managed->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed->flags = flags;
  return managed;
}

DLManagedTensor* export_dlpack_legacy(const Tensor& tensor, Order order) {
  check_dlpack(tensor, true);
  check_order(tensor, order);
  return give_away<DLManagedTensor>(tensor);
}

}  // namespace crossdock::exchange
