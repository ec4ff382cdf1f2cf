#include "crossdock/array/tensor.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "support/message_of.h"
#include "unit/device/support.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor tensor_of(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, void* data) {
  Tensor tensor;
  tensor.extents = Extents(static_cast<std::int32_t>(shape.size()));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    tensor.extents.shape()[d] = shape[d];
    tensor.extents.strides()[d] = strides[d];
  }
  tensor.data = data;
  return tensor;
}

std::vector<double> numbers(std::size_t n) {
  std::vector<double> values(n);
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

double first(const Tensor& tensor) { return *static_cast<const double*>(tensor.data); }

TEST(Extents, AreValuesInlineAndOnTheHeap) {
  for (const std::int32_t ndim : {0, 1, Extents::kInline, Extents::kInline + 1, kMaxTensorDimensions}) {
    Extents extents(ndim);
    for (std::int32_t d = 0; d < ndim; ++d) {
      extents.shape()[static_cast<std::size_t>(d)] = d;
      extents.strides()[static_cast<std::size_t>(d)] = -d;
    }
    Extents copied = extents;
    const Extents moved = std::move(copied);
    Extents assigned(3);
    assigned = moved;
    ASSERT_EQ(assigned.ndim(), ndim);
    for (std::int32_t d = 0; d < ndim; ++d) {
      EXPECT_EQ(assigned.shape()[static_cast<std::size_t>(d)], d);
      EXPECT_EQ(assigned.strides()[static_cast<std::size_t>(d)], -d);
    }
  }
}

TEST(Tensor, KnowsItsSizeAndOrder) {
  auto values = numbers(24);
  Tensor c = tensor_of({2, 3, 4}, {0, 0, 0}, values.data());
  set_row_major(&c, "here");
  EXPECT_THAT(c.strides(), ElementsAre(96, 32, 8));
  EXPECT_EQ(c.size(), 24);
  EXPECT_EQ(c.nbytes(), 192);
  EXPECT_TRUE(c.c_contiguous());
  EXPECT_FALSE(c.f_contiguous());
  const Tensor f = tensor_of({2, 3}, {8, 16}, values.data());
  EXPECT_TRUE(f.f_contiguous());
  EXPECT_FALSE(f.c_contiguous());
  EXPECT_TRUE(tensor_of({1, 3}, {-77, 8}, values.data()).c_contiguous()) << "one element has no stride";
  EXPECT_TRUE(tensor_of({5, 0, 3}, {1, 1, 1}, nullptr).c_contiguous()) << "no element has no gaps";
  EXPECT_TRUE(tensor_of({}, {}, values.data()).c_contiguous());
}

TEST(Tensor, ItsBytesLieOnBothSidesOfTheFirstElement) {
  double value = 0;
  EXPECT_EQ(byte_range(tensor_of({3, 4}, {-32, 8}, &value), "here").lowest, -64);
  EXPECT_EQ(byte_range(tensor_of({3, 4}, {-32, 8}, &value), "here").highest, 32);
  EXPECT_EQ(byte_range(tensor_of({3, 0}, {-32, 8}, &value), "here").highest, 0);
  EXPECT_EQ(byte_range(tensor_of({}, {}, &value), "here").highest, 8);
}

TEST(Tensor, RefusesExtentsThatMakeNoSense) {
  double value = 0;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const auto check = [&](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
    Tensor tensor = tensor_of(std::move(shape), std::move(strides), &value);
    check_tensor(&tensor, "the peer");
  };
  EXPECT_THAT(message_of<InvalidDataError>([&] { check({2, -1}, {8, 8}); }), HasSubstr("the peer: the shape (2, -1)"));
  EXPECT_THROW(check({0, -1}, {8, 8}), InvalidDataError) << "also where another extent is 0";
  EXPECT_THROW(check({kMost}, {8}), InvalidDataError);
  EXPECT_THROW(check({kMost}, {0}), InvalidDataError) << "its size in bytes overflows";
  EXPECT_THROW(check({3}, {kMost}), InvalidDataError);
  EXPECT_THROW(check({3}, {kLeast}), InvalidDataError);
  EXPECT_THROW(check({2}, {kLeast}), InvalidDataError);
  EXPECT_THROW(check({2, 2}, {kMost - 8, -kMost}), InvalidDataError) << "the distance between its ends overflows";
  EXPECT_THROW(check({1 << 30}, {-(std::int64_t{1} << 32)}), InvalidDataError) << "reaches below address 0";
  EXPECT_NO_THROW(check({1, 1}, {kMost, kLeast}));
  Tensor huge = tensor_of({1 << 30, 1 << 30, 1 << 30}, {0, 0, 0}, &value);
  EXPECT_THROW(set_row_major(&huge, "here"), InvalidDataError);
}

TEST(Tensor, PointersFitTheSize) {
  Tensor missing = tensor_of({2}, {8}, nullptr);
  EXPECT_THAT(message_of<InvalidDataError>([&] { check_tensor(&missing, "here"); }), HasSubstr("null pointer"));
  double value = 0;
  Tensor empty = tensor_of({0}, {8}, &value);
  check_tensor(&empty, "here");
  EXPECT_EQ(empty.data, nullptr);
}

TEST(Slice, IsAView) {
  auto values = numbers(12);
  const Tensor whole = tensor_of({3, 4}, {32, 8}, values.data());
  const Slice rows[] = {{.start = 2, .step = -1, .count = 3}};
  const Tensor reversed = slice(whole, rows);
  EXPECT_THAT(reversed.shape(), ElementsAre(3, 4));
  EXPECT_THAT(reversed.strides(), ElementsAre(-32, 8));
  EXPECT_EQ(first(reversed), 8);
  const Slice element[] = {{.start = 1, .count = 1, .keep = false}, {.start = 3, .step = -2, .count = 2}};
  const Tensor part = slice(reversed, element);
  EXPECT_THAT(part.shape(), ElementsAre(2));
  EXPECT_THAT(part.strides(), ElementsAre(-16));
  EXPECT_EQ(first(part), 7);
  const Slice nothing[] = {{.start = 3, .count = 0}};
  EXPECT_EQ(slice(whole, nothing).data, nullptr);
  EXPECT_THAT(slice(whole, nothing).shape(), ElementsAre(0, 4));
}

TEST(ByteRange, ExtentsBesideAnEmptyOneAreNumbersToo) {
  constexpr std::int64_t kMuch = std::int64_t{1} << 40;
  for (const auto& shape : {std::vector<std::int64_t>{0, kMuch, kMuch}, {kMuch, kMuch, 0}, {kMuch, 0, kMuch}}) {
    Tensor tensor = tensor_of(shape, {1, 1, 1}, nullptr);
    EXPECT_THROW(byte_range(tensor, "it"), InvalidDataError) << shape_text(shape);
    EXPECT_THROW(check_tensor(&tensor, "it"), InvalidDataError);
  }
  Tensor fits = tensor_of({kMuch, 0, 1024}, {0, 0, 0}, nullptr);
  check_tensor(&fits, "it");
  EXPECT_EQ(fits.size(), 0);
}

TEST(Slice, StaysWithinItsTensor) {
  auto values = numbers(12);
  const Tensor whole = tensor_of({3, 4}, {32, 8}, values.data());
  const auto cut = [&](std::vector<Slice> slices) { return slice(whole, slices); };
  EXPECT_THROW(cut({{.start = 3, .count = 1}}), InvalidArgumentError);
  EXPECT_THROW(cut({{.start = -1, .count = 1}}), InvalidArgumentError);
  EXPECT_THROW(cut({{.start = 0, .step = 2, .count = 3}}), InvalidArgumentError);
  EXPECT_THROW(cut({{.start = 0, .step = 0, .count = 1}}), InvalidArgumentError);
  EXPECT_THROW(cut({{.start = 0, .count = -1}}), InvalidArgumentError);
  EXPECT_THROW(cut({{.start = 0, .step = std::numeric_limits<std::int64_t>::max(), .count = 3}}), InvalidArgumentError);
  EXPECT_THROW(cut({{.count = 1}, {.count = 1}, {.count = 1}}), InvalidArgumentError);
}

TEST(Slice, TakesTheMaskAlong) {
  auto values = numbers(4);
  bool valid[] = {true, false, true, false};
  Tensor whole = tensor_of({4}, {8}, values.data());
  Tensor mask = tensor_of({4}, {1}, valid);
  mask.type = parse_element_type("bool");
  whole.mask = std::make_shared<const Tensor>(mask);
  const Slice second[] = {{.start = 1, .step = 2, .count = 2}};
  const Tensor part = slice(whole, second);
  ASSERT_NE(part.mask, nullptr);
  EXPECT_EQ(part.mask->data, valid + 1);
  EXPECT_THAT(part.mask->strides(), ElementsAre(2));
}

TEST(Slice, OfAHandleMovesTheOffset) {
  double value = 0;
  Tensor buffer = tensor_of({4}, {8}, &value);
  buffer.device = {device::DeviceType::kOpenCl, 0};
  buffer.byte_offset = 16;
  const Slice last[] = {{.start = 3, .count = 1}};
  EXPECT_EQ(slice(buffer, last).data, &value);
  EXPECT_EQ(slice(buffer, last).byte_offset, 40u);
}

TEST(Transpose, IsAView) {
  auto values = numbers(24);
  Tensor tensor = tensor_of({2, 3, 4}, {96, 32, 8}, values.data());
  const std::int32_t axes[] = {2, 0, 1};
  const Tensor moved = transpose(tensor, axes);
  EXPECT_THAT(moved.shape(), ElementsAre(4, 2, 3));
  EXPECT_THAT(moved.strides(), ElementsAre(8, 96, 32));
  EXPECT_EQ(moved.data, values.data());
  const std::int32_t twice[] = {0, 0, 1};
  const std::int32_t outside[] = {0, 1, 3};
  const std::int32_t few[] = {0, 1};
  EXPECT_THROW(transpose(tensor, twice), InvalidArgumentError);
  EXPECT_THROW(transpose(tensor, outside), InvalidArgumentError);
  EXPECT_THROW(transpose(tensor, few), InvalidArgumentError);
}

}  // namespace
}  // namespace crossdock::array
