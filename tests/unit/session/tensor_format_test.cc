#include "session/tensor_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

using array::ElementType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ipc::TensorHeader header_of(const WireType& wire) {
  ipc::TensorHeader header;
  header.type = wire.type;
  if (!wire.dtype.empty()) header.custom_metadata.emplace_back(kDtypeKey, wire.dtype);
  return header;
}

std::vector<ElementType> every_type() {
  std::vector<ElementType> types;
  for (const char* const name :
       {"bool",          "int8",     "int16",       "int32",         "int64",       "uint8",          "uint16",
        "uint32",        "uint64",   "float16",     "float32",       "float64",     "complex32",      "complex64",
        "complex128",    "bfloat16", "float8_e3m4", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float6_e2m3fn",
        "float4_e2m1fn", ">i2",      ">f8",         ">c16",          "<M8[ns]",     "<m8[25s]",       ">M8[D]",
        "|S5",           "<U3",      "|V16",        "|V4",           "<f16"}) {
    types.push_back(array::parse_element_type(name));
  }
  types.push_back({.code = array::TypeCode::kFloat, .bits = 32, .lanes = 4});
  types.push_back({.code = array::TypeCode::kFloat4E2m1fn, .bits = 4, .lanes = 2});
  return types;
}

TEST(TensorFormat, EveryTypeComesBack) {
  for (const ElementType& type : every_type()) {
    const WireType wire = wire_type(type);
    EXPECT_EQ(array::type_layout(wire.type).width, type.itemsize()) << element_type_name(type);
    EXPECT_TRUE(element_type(header_of(wire), "it") == type) << element_type_name(type) << ", as " << wire.dtype;
  }
}

TEST(TensorFormat, ArrowsNumbersHaveNoDtype) {
  EXPECT_EQ(wire_type(array::parse_element_type("float64")).dtype, "");
  EXPECT_EQ(wire_type(array::parse_element_type("bool")).dtype, "|b1");
  EXPECT_EQ(wire_type(array::parse_element_type("bfloat16")).dtype, "bfloat16");
  EXPECT_EQ(wire_type(array::parse_element_type("bfloat16")).type.id, array::TypeId::kUInt16);
  EXPECT_EQ(wire_type(array::parse_element_type(">i4")).dtype, ">i4");
  EXPECT_EQ(wire_type(array::parse_element_type("complex128")).type.id, array::TypeId::kFixedSizeBinary);
}

TEST(TensorFormat, WhatHasNoFormIsRefusedByName) {
  const ElementType structure = array::structured_type("|V8", {{.name = "a", .typestr = "<i8"}});
  EXPECT_THROW(wire_type(structure), UnsupportedTypeError);
  EXPECT_THROW(wire_type(array::parse_element_type("|S0")), UnsupportedTypeError);
  EXPECT_THROW(wire_type({.code = static_cast<array::TypeCode>(99), .bits = 8}), UnsupportedTypeError);
}

TEST(TensorFormat, WrongDtypesAreRefused) {
  const array::Type two_bytes{.id = array::TypeId::kUInt16};
  for (const char* const dtype :
       {"", "nothing", "<i4", "bfloat16 x2", "float8_e5m2", "float8_e5m2 x0", "|S-2", "float8_e5m2 x99999999",
        "float8_e5m2 x2 ", "|O2", "bfloat16 padded padded", "<U99999999999999"}) {
    EXPECT_THROW(element_type(header_of({two_bytes, *dtype == '\0' ? " " : dtype}), "it"), Error) << dtype;
  }
}

array::Tensor tensor_of(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
  array::Tensor tensor;
  tensor.type = array::parse_element_type("int32");
  tensor.extents = array::Extents(static_cast<std::int32_t>(shape.size()));
  std::ranges::copy(shape, tensor.extents.shape().begin());
  std::ranges::copy(strides, tensor.extents.strides().begin());
  return tensor;
}

TEST(TensorFormat, GapsAreFound) {
  EXPECT_TRUE(lies_without_gaps(tensor_of({}, {})));
  EXPECT_TRUE(lies_without_gaps(tensor_of({3, 4}, {16, 4})));
  EXPECT_TRUE(lies_without_gaps(tensor_of({3, 4}, {4, 12}))) << "in another order";
  EXPECT_TRUE(lies_without_gaps(tensor_of({3, 1, 4}, {16, -99, 4}))) << "one element has no stride";
  EXPECT_TRUE(lies_without_gaps(tensor_of({1000, 4}, {0, 4}))) << "repeated";
  EXPECT_TRUE(lies_without_gaps(tensor_of({3, 4}, {4, 4}))) << "windows";
  EXPECT_TRUE(lies_without_gaps(tensor_of({3, 0}, {-5, 77}))) << "nothing";
  EXPECT_FALSE(lies_without_gaps(tensor_of({3, 4}, {20, 4})));
  EXPECT_FALSE(lies_without_gaps(tensor_of({3}, {8})));
  EXPECT_FALSE(lies_without_gaps(tensor_of({3}, {-4})));
}

TEST(TensorFormat, ASchemaSaysWhatItsStreamHas) {
  const auto single = tensor_content(*tensor_schema({.type = "float32", .shape = {2, 3}}));
  ASSERT_TRUE(single);
  EXPECT_TRUE(single->single);
  EXPECT_EQ(single->type, "float32");
  EXPECT_THAT(single->shape, ElementsAre(2, 3));
  const auto several = tensor_content(*tensor_schema({.single = false, .count = 12}));
  ASSERT_TRUE(several);
  EXPECT_FALSE(several->single);
  EXPECT_EQ(several->count, 12);
  EXPECT_FALSE(tensor_content(array::Schema(std::vector<array::Field>{}))) << "a table without columns";
}

TEST(TensorFormat, WhatAForeignSchemaSaysIsNotTrusted) {
  const auto content = [](array::Metadata metadata) {
    return tensor_content(array::Schema(std::vector<array::Field>{}, std::move(metadata)));
  };
  EXPECT_EQ(content({{"crossdock:content", "tensors"}, {"crossdock:count", "-3"}})->count, -1);
  EXPECT_EQ(content({{"crossdock:content", "tensors"}, {"crossdock:count", "3 "}})->count, -1);
  const auto odd = content({{"crossdock:content", "tensor"}, {"crossdock:type", "\xFF"}, {"crossdock:shape", "[1]"}});
  EXPECT_EQ(odd->type, "");
  EXPECT_TRUE(odd->shape.empty());
}

}  // namespace
}  // namespace crossdock::session
