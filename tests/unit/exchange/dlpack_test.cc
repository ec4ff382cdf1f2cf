#include "crossdock/exchange/dlpack.h"

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "support/message_of.h"
#include "unit/device/support.h"
#include "unit/exchange/support.h"

extern "C" std::size_t crossdock_test_versioned_size_in_c();
extern "C" std::size_t crossdock_test_foreign_versioned_size();

namespace crossdock::exchange {
namespace {

using array::Tensor;
using crossdock::testing::counting_owner;
using crossdock::testing::made_tensor;
using crossdock::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A producer's struct, and how often its deleter ran.
struct Produced {
  explicit Produced(std::vector<std::int64_t> shape_, std::vector<std::int64_t> strides_ = {})
      : shape(std::move(shape_)), strides(std::move(strides_)) {
    managed.version = {1, 3};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) { ++static_cast<Produced*>(self->manager_ctx)->deleted; };
    managed.dl_tensor = {.data = values,
                         .device = {kDLCPU, 0},
                         .ndim = static_cast<std::int32_t>(shape.size()),
                         .dtype = {kDLFloat, 64, 1},
                         .shape = shape.data(),
                         .strides = strides.empty() ? nullptr : strides.data(),
                         .byte_offset = 0};
  }
  DLTensor& tensor() { return managed.dl_tensor; }

  double values[24] = {};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  DLManagedTensorVersioned managed{};
  int deleted = 0;
};

TEST(DlpackAbi, CAndCxxAgree) {
  EXPECT_EQ(crossdock_test_versioned_size_in_c(), sizeof(DLManagedTensorVersioned));
  EXPECT_EQ(crossdock_test_foreign_versioned_size(), sizeof(int));
}

TEST(Dlpack, ImportsWithoutACopy) {
  Produced produced({2, 3}, {3, 1});
  produced.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED;
  {
    Tensor tensor = import_dlpack(&produced.managed);
    EXPECT_EQ(tensor.data, produced.values);
    EXPECT_THAT(tensor.shape(), ElementsAre(2, 3));
    EXPECT_THAT(tensor.strides(), ElementsAre(24, 8));
    EXPECT_TRUE(tensor.read_only);
    const Tensor view = tensor;
    tensor = Tensor();
    EXPECT_EQ(produced.deleted, 0) << "a view keeps it";
  }
  EXPECT_EQ(produced.deleted, 1);
}

TEST(Dlpack, StridesMayBeNullAndOffsetsAreFoldedIn) {
  Produced produced({2, 3});
  produced.tensor().byte_offset = 16;
  const Tensor tensor = import_dlpack(&produced.managed);
  EXPECT_THAT(tensor.strides(), ElementsAre(24, 8));
  EXPECT_EQ(tensor.data, produced.values + 2);
  EXPECT_EQ(tensor.byte_offset, 0u);
}

TEST(Dlpack, HandlesKeepTheirOffset) {
  Produced produced({2});
  produced.tensor().device = {kDLOpenCL, 3};
  produced.tensor().byte_offset = 16;
  Tensor tensor = import_dlpack(&produced.managed);
  EXPECT_EQ(tensor.data, produced.values);
  EXPECT_EQ(tensor.byte_offset, 16u);
  DLManagedTensorVersioned* out = export_dlpack(tensor);
  tensor = Tensor();
  EXPECT_EQ(out->dl_tensor.data, produced.values);
  EXPECT_EQ(out->dl_tensor.byte_offset, 16u);
  out->deleter(out);
  EXPECT_EQ(produced.deleted, 1);
}

TEST(Dlpack, CarriesDevicesWithoutADriver) {
  for (const int type : {2, 3, 10, 13, 14, 16, 17, 18, 77}) {
    Produced produced({2});
    produced.tensor().device = {static_cast<DLDeviceType>(type), 5};
    DLManagedTensorVersioned* out = export_dlpack(import_dlpack(&produced.managed));
    EXPECT_EQ(out->dl_tensor.device.device_type, type);
    // DLPack's pinned and managed memory is always device 0.
    EXPECT_EQ(out->dl_tensor.device.device_id, type == 3 || type == 13 ? 0 : 5);
    EXPECT_EQ(out->dl_tensor.data, produced.values);
    out->deleter(out);
    EXPECT_EQ(produced.deleted, 1);
  }
}

TEST(Dlpack, WithoutADeleterNothingIsDeleted) {
  Produced produced({2});
  produced.managed.deleter = nullptr;
  { const Tensor tensor = import_dlpack(&produced.managed); }
  EXPECT_EQ(produced.deleted, 0);
}

TEST(Dlpack, RefusesWhatMakesNoSenseAndLeavesItToTheCaller) {
  const auto refused = [](auto spoil) {
    Produced produced({2, 3}, {3, 1});
    spoil(produced);
    EXPECT_THROW(import_dlpack(&produced.managed), InvalidDataError);
    EXPECT_EQ(produced.deleted, 0);
  };
  refused([](Produced& p) { p.tensor().ndim = -1; });
  refused([](Produced& p) { p.tensor().ndim = 65; });
  refused([](Produced& p) { p.tensor().shape = nullptr; });
  refused([](Produced& p) { p.shape[0] = -2; });
  refused([](Produced& p) { p.tensor().data = nullptr; });
  refused([](Produced& p) { p.tensor().dtype.bits = 0; });
  refused([](Produced& p) { p.tensor().dtype.lanes = 0; });
  refused([](Produced& p) { p.shape[0] = std::numeric_limits<std::int64_t>::max(); });
  refused([](Produced& p) { p.strides[0] = std::numeric_limits<std::int64_t>::max() / 4; });
  refused([](Produced& p) { p.tensor().byte_offset = UINT64_MAX; });
  Produced packed({2});
  packed.tensor().dtype = {kDLFloat4_e2m1fn, 4, 1};
  EXPECT_THAT(message_of<UnsupportedTypeError>([&] { import_dlpack(&packed.managed); }), HasSubstr("PADDED"));
  Produced future({2});
  future.managed.version = {2, 0};
  EXPECT_THAT(message_of<UnsupportedTypeError>([&] { import_dlpack(&future.managed); }), HasSubstr("2.0"));
  EXPECT_THROW(import_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr)), InvalidArgumentError);
}

TEST(Dlpack, PaddedElementsAreBytes) {
  Produced produced({5});
  produced.tensor().dtype = {kDLFloat6_e2m3fn, 6, 1};
  produced.managed.flags = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  Tensor tensor = import_dlpack(&produced.managed);
  EXPECT_EQ(tensor.nbytes(), 5);
  DLManagedTensorVersioned* out = export_dlpack(tensor);
  EXPECT_EQ(out->flags, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
  out->deleter(out);
}

TEST(Dlpack, ExportsWithStridesInElements) {
  double values[6] = {};
  int released = 0;
  Tensor tensor = made_tensor("float64", {2, 3}, {8, -16}, values + 5);
  tensor.owner = counting_owner(&released);
  tensor.read_only = true;
  DLManagedTensorVersioned* out = export_dlpack(tensor);
  tensor = Tensor();
  EXPECT_EQ(out->version.major, 1u);
  EXPECT_EQ(out->version.minor, 3u);
  EXPECT_EQ(out->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  EXPECT_EQ(out->dl_tensor.data, values + 1) << "the lowest address";
  EXPECT_EQ(out->dl_tensor.byte_offset, 4 * sizeof(double)) << "from there to the first element";
  EXPECT_EQ(out->dl_tensor.strides[0], 1);
  EXPECT_EQ(out->dl_tensor.strides[1], -2);
  EXPECT_EQ(out->dl_tensor.device.device_type, kDLCPU);
  EXPECT_EQ(out->dl_tensor.device.device_id, 0);
  EXPECT_EQ(released, 0);
  out->deleter(out);
  EXPECT_EQ(released, 1);
}

TEST(Dlpack, ExportsTheLowestAddressOfNegativeStrides) {
  double values[24] = {};
  const std::vector<std::pair<std::vector<std::int64_t>, std::ptrdiff_t>> cases = {
      {{-96, -32, -8}, 23}, {{96, -32, 8}, 8}, {{-96, 32, 8}, 12}, {{96, 32, 8}, 0}};
  for (const auto& [strides, first] : cases) {
    const Tensor tensor = made_tensor("float64", {2, 3, 4}, strides, values + first);
    DLManagedTensor* out = export_dlpack_legacy(tensor);
    EXPECT_EQ(out->dl_tensor.data, values);
    EXPECT_EQ(out->dl_tensor.byte_offset, static_cast<std::uint64_t>(first) * sizeof(double));
    EXPECT_EQ(view_dlpack(out->dl_tensor, 0).data, tensor.data);
    out->deleter(out);
  }
  // Dimensions of one element lead nowhere, and arrays without elements have no pointer.
  DLManagedTensor* one = export_dlpack_legacy(made_tensor("float64", {1, 2}, {-64, 8}, values));
  EXPECT_EQ(one->dl_tensor.data, values);
  EXPECT_EQ(one->dl_tensor.byte_offset, 0u);
  one->deleter(one);
  DLManagedTensor* none = export_dlpack_legacy(made_tensor("float64", {0, 2}, {-16, -8}, nullptr));
  EXPECT_EQ(none->dl_tensor.data, nullptr);
  EXPECT_EQ(none->dl_tensor.byte_offset, 0u);
  none->deleter(none);
  // What has a handle and no addresses has its offset from there already.
  Tensor handle = made_tensor("float64", {3}, {-8}, values);
  handle.device = {device::DeviceType::kOpenCl, 0};
  handle.byte_offset = 16;
  DLManagedTensor* its = export_dlpack_legacy(handle);
  EXPECT_EQ(its->dl_tensor.data, values);
  EXPECT_EQ(its->dl_tensor.byte_offset, 16u);
  its->deleter(its);
}

TEST(Dlpack, ExportsManyDimensions) {
  double value = 0;
  const std::vector<std::int64_t> shape(array::kMaxTensorDimensions, 1);
  const std::vector<std::int64_t> strides(array::kMaxTensorDimensions, 8);
  DLManagedTensor* out = export_dlpack_legacy(made_tensor("float64", shape, strides, &value));
  EXPECT_EQ(out->dl_tensor.ndim, 64);
  EXPECT_EQ(out->dl_tensor.strides[63], 1);
  EXPECT_EQ(out->dl_tensor.shape[63], 1);
  out->deleter(out);
}

TEST(Dlpack, AnEmptyTensorHasANullPointerAndStrides) {
  DLManagedTensorVersioned* out = export_dlpack(made_tensor("int8", {0, 2}, {2, 1}, nullptr));
  EXPECT_EQ(out->dl_tensor.data, nullptr);
  EXPECT_NE(out->dl_tensor.strides, nullptr);
  out->deleter(out);
}

TEST(Dlpack, RefusesWhatItCantSay) {
  char bytes[64] = {};
  const auto text_of = [](const Tensor& tensor) { return message_of<ExportError>([&] { export_dlpack(tensor); }); };
  EXPECT_THAT(text_of(made_tensor(">f4", {2}, {4}, bytes)), HasSubstr(">f4"));
  EXPECT_THAT(text_of(made_tensor("<M8[ns]", {2}, {8}, bytes)), HasSubstr("<M8[ns]"));
  EXPECT_THAT(text_of(made_tensor("|V3", {2}, {3}, bytes)), HasSubstr("|V3"));
  EXPECT_THAT(text_of(made_tensor("<f8", {2}, {12}, bytes)), HasSubstr("12 of 8 bytes"));
  Tensor far = made_tensor("<f8", {2}, {8}, bytes);
  far.device = {device::DeviceType::kCuda, std::int64_t{1} << 40};
  EXPECT_THAT(text_of(far), HasSubstr("32 bits"));
  far.device.id = -(std::int64_t{1} << 32);
  EXPECT_THAT(text_of(far), HasSubstr("32 bits"));
  far.device.type = device::DeviceType::kCudaHost;  // whose number isn't said
  DLManagedTensorVersioned* const pinned = export_dlpack(far);
  pinned->deleter(pinned);
  Tensor masked = made_tensor("<f8", {2}, {8}, bytes);
  masked.mask = std::make_shared<const Tensor>(made_tensor("bool", {2}, {1}, bytes));
  EXPECT_THROW(export_dlpack(masked), UnsupportedError);
}

TEST(Dlpack, LegacyCantSayReadOnly) {
  double values[2] = {};
  Tensor tensor = made_tensor("float64", {2}, {8}, values);
  tensor.read_only = true;
  EXPECT_THAT(message_of<ExportError>([&] { export_dlpack_legacy(tensor); }), HasSubstr("read-only"));
}

TEST(Dlpack, WorkThatMayNotBeDoneIsntHandedOver) {
  double values[2] = {};
  int native = 0;
  Tensor tensor = made_tensor("float64", {2}, {8}, values);
  tensor.event = device::Event(device::NativeEvent(&native), nullptr);
  EXPECT_THROW(export_dlpack(tensor), InvalidArgumentError);
  tensor.event.fail(std::make_shared<const SystemError>("the kernel before it failed"));
  EXPECT_THROW(export_dlpack(tensor), SystemError);
}

}  // namespace
}  // namespace crossdock::exchange
