#include <gmock/gmock.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "crossdock/exchange/copy.h"
#include "unit/exchange/support.h"

namespace crossdock::exchange {
namespace {

using array::Tensor;
using crossdock::testing::made_tensor;
using ::testing::ElementsAre;

/// Element by element, as the definition of strides says.
std::vector<std::byte> packed_plainly(const Tensor& from) {
  std::vector<std::byte> out(static_cast<std::size_t>(from.nbytes()));
  const auto width = static_cast<std::size_t>(from.type.itemsize());
  std::vector<std::int64_t> index(from.shape().size(), 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(from.size()); ++i) {
    std::int64_t offset = 0;
    std::size_t rest = i;
    for (std::size_t d = index.size(); d-- > 0;) {
      const auto extent = static_cast<std::size_t>(from.shape()[d]);
      offset += static_cast<std::int64_t>(rest % extent) * from.strides()[d];
      rest /= extent;
    }
    std::memcpy(out.data() + i * width, static_cast<const std::byte*>(from.data) + offset, width);
  }
  return out;
}

void expect_packed(const Tensor& from) {
  std::vector<std::byte> out(static_cast<std::size_t>(from.nbytes()));
  pack(from, out.data());
  EXPECT_EQ(out, packed_plainly(from)) << array::element_type_name(from.type) << " " << array::shape_text(from.shape())
                                       << " " << array::shape_text(from.strides());
}

TEST(Pack, FollowsAnyStrides) {
  std::vector<std::uint8_t> bytes(4096);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  std::uint8_t* const middle = bytes.data() + 2048;
  for (const char* type : {"int8", "<i2", "float32", "float64", "complex128", "|V3", "|S20"}) {
    const std::int64_t w = array::parse_element_type(type).itemsize();
    expect_packed(made_tensor(type, {}, {}, middle));
    expect_packed(made_tensor(type, {7}, {w}, middle));
    expect_packed(made_tensor(type, {7}, {-w}, middle));
    expect_packed(made_tensor(type, {7}, {3 * w}, middle));
    expect_packed(made_tensor(type, {7}, {0}, middle));
    expect_packed(made_tensor(type, {2, 3, 4}, {12 * w, 4 * w, w}, middle));
    expect_packed(made_tensor(type, {4, 3, 2}, {w, 4 * w, 12 * w}, middle));
    expect_packed(made_tensor(type, {2, 1, 3}, {-6 * w, 999, 2 * w}, middle));
    expect_packed(made_tensor(type, {3, 2}, {w, w}, middle));
    expect_packed(made_tensor(type, {1, 1}, {123, -7}, middle));
  }
}

TEST(Pack, OfNothingIsNothing) {
  std::byte untouched{1};
  pack(made_tensor("float64", {3, 0}, {8, 8}, nullptr), &untouched);
  EXPECT_EQ(untouched, std::byte{1});
}

}  // namespace
}  // namespace crossdock::exchange
