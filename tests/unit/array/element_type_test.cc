#include "crossdock/array/tensor.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "support/message_of.h"
#include "unit/device/support.h"

namespace crossdock::array {
namespace {

using crossdock::testing::message_of;
using ::testing::HasSubstr;

TEST(ElementType, TypestrsGoBothWays) {
  for (const char* typestr :
       {"|b1",  "|i1", "<i2", "<i4",  "<i8",     "|u1",      "<u2", "<u4", "<u8", "<f2",  "<f4",  "<f8", "<c8",
        "<c16", ">i2", ">f8", ">c16", "<M8[ns]", ">m8[25s]", "<M8", "|S5", "<U3", "|V12", "<f16", "<c32"}) {
    EXPECT_EQ(typestr_of(parse_typestr(typestr)), typestr);
  }
  EXPECT_EQ(typestr_of(parse_typestr("=f4")), "<f4");
  EXPECT_EQ(typestr_of(parse_typestr(">u1")), "|u1") << "one byte has no order";
  EXPECT_EQ(typestr_of(parse_typestr("<V4")), "|V4") << "nor have bytes";
}

TEST(ElementType, SaysItsSize) {
  EXPECT_EQ(parse_typestr("<U3").itemsize(), 12);
  EXPECT_EQ(parse_typestr("|S5").itemsize(), 5);
  EXPECT_EQ(parse_typestr("<c16").itemsize(), 16);
  EXPECT_EQ(parse_element_type("float4_e2m1fn").itemsize(), 1);
  ElementType vector = parse_element_type("float32");
  vector.lanes = 4;
  EXPECT_EQ(vector.itemsize(), 16);
  EXPECT_EQ(element_type_name(vector), "float32x4");
  EXPECT_EQ(typestr_of(vector), "");
}

TEST(ElementType, HasANameForEachNumber) {
  for (const char* name : {"bool", "int8", "int64", "uint32", "float16", "float64", "complex64", "complex32",
                           "bfloat16", "float8_e4m3fn", "float8_e5m2", "float6_e3m2fn", "float4_e2m1fn"}) {
    EXPECT_EQ(element_type_name(parse_element_type(name)), name);
  }
  EXPECT_EQ(element_type_name(parse_element_type(">f4")), ">f4");
  EXPECT_EQ(parse_element_type("f4"), parse_element_type("float32"));
  EXPECT_FALSE(parse_element_type("f4") == parse_element_type(">f4"));
  EXPECT_THAT(message_of<InvalidArgumentError>([] { parse_element_type("floaty"); }), HasSubstr("bfloat16"));
}

TEST(ElementType, RefusesTypestrsThatMeanNothing) {
  for (const char* typestr : {"", "f4", "<f", "<f3", "<i3", "<f4x", "<f4[ns]", "<q8", "#f4", "<b2", "<m4", "<M8[]",
                              "<M8[bogus]", "<M8[0s]", "<f-4", "<f99999999999999999999", "<U9223372036854775807"}) {
    EXPECT_THROW(parse_typestr(typestr), InvalidArgumentError) << typestr;
  }
  EXPECT_THROW(parse_typestr("|O8"), UnsupportedTypeError);
  EXPECT_THROW(parse_typestr("|t3"), UnsupportedTypeError);
}

TEST(ElementType, ADescrAddsUpToItsTypestr) {
  const std::vector<DescrField> point = {{.name = "x", .typestr = "<f4"}, {.name = "y", .typestr = "<f4"}};
  const ElementType type = structured_type("|V8", point);
  EXPECT_EQ(type.itemsize(), 8);
  EXPECT_EQ(typestr_of(type), "|V8");
  EXPECT_EQ(type, structured_type("|V8", point));
  const std::vector<DescrField> nested = {{.name = "id", .typestr = "<i4"},
                                          {.name = "points", .fields = point, .shape = {2, 3}}};
  EXPECT_EQ(structured_type("|V52", nested).itemsize(), 52);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { structured_type("|V9", point); }), HasSubstr("disagree"));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { structured_type("<f8", point); }), HasSubstr("disagree"));
  EXPECT_EQ(structured_type("<f8", {{.name = "", .typestr = "<f8"}}), parse_typestr("<f8"));
  EXPECT_THROW(structured_type("<f8", {{.name = "", .typestr = "<f4"}}), InvalidArgumentError);
  EXPECT_THROW(structured_type("|V8", {{.name = "x"}}), InvalidArgumentError);
  EXPECT_THROW(structured_type("|V8", {{.name = "x", .typestr = "|O8"}}), UnsupportedTypeError);
  EXPECT_THROW(structured_type("|V8", {{.name = "x", .typestr = "<i1", .shape = {-8}}}), InvalidArgumentError);
  EXPECT_THROW(structured_type("|V8", {{.name = "x", .typestr = "<i8", .shape = {1 << 30, 1 << 30, 1 << 30}}}),
               InvalidArgumentError);
}

}  // namespace
}  // namespace crossdock::array
