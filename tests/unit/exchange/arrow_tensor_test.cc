#include "crossdock/exchange/arrow_tensor.h"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/exchange/copy.h"
#include "support/message_of.h"
#include "unit/device/sim/support.h"
#include "unit/exchange/support.h"

namespace crossdock::exchange {
namespace {

using namespace std::chrono_literals;
using array::Field;
using array::RecordBatch;
using array::Tensor;
using array::TypeId;
using crossdock::testing::counting_owner;
using crossdock::testing::made_tensor;
using crossdock::testing::message_of;
using device::DeviceType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Field field_of(TypeId id, std::int32_t fixed_size = 0) {
  Field field;
  field.name = "c";
  field.type.id = id;
  field.type.fixed_size = fixed_size;
  return field;
}
Field list_of(std::int32_t size, Field child) {
  Field field = field_of(TypeId::kFixedSizeList, size);
  field.children.push_back(std::move(child));
  return field;
}
Field shaped(const std::string& json, std::int32_t size) {
  Field field = list_of(size, field_of(TypeId::kInt64));
  field.metadata = {{"ARROW:extension:name", "arrow.fixed_shape_tensor"}, {"ARROW:extension:metadata", json}};
  return field;
}

/// A column of `rows` whose values lie in `values`; a node and an absent validity for each list around them.
RecordBatch column_of(Field field, std::int64_t rows, const void* values, std::int64_t bytes) {
  RecordBatch batch;
  batch.num_rows = rows;
  std::int64_t length = rows;
  for (const Field* one = &field; one != nullptr; one = one->children.empty() ? nullptr : one->children.data()) {
    batch.nodes.push_back({length, 0, 0});
    batch.buffers.push_back({});
    length *= one->type.fixed_size;
  }
  batch.buffers.push_back({values, bytes});
  batch.schema = std::make_shared<const array::Schema>(std::vector<Field>{std::move(field)});
  return batch;
}
RecordBatch on_device(RecordBatch batch, DeviceType type, std::int64_t id) {
  batch.device = {type, id};
  batch.kind = device::kind_of(type);
  return batch;
}

class ArrowTensorTest : public ::testing::Test {
 protected:
  ArrowTensorTest() { std::iota(numbers_.begin(), numbers_.end(), 0); }
  RecordBatch numbers(Field field, std::int64_t rows) {
    return column_of(std::move(field), rows, numbers_.data(), static_cast<std::int64_t>(8 * numbers_.size()));
  }
  std::string refusal(const RecordBatch& column, BoolPolicy bools = BoolPolicy::kRefuse) {
    return message_of<ExportError>([&] { tensor_of_column(column, bools); });
  }
  std::string refusal(const Tensor& tensor, BoolPolicy bools = BoolPolicy::kRefuse) {
    return message_of<ExportError>([&] { column_of_tensor(tensor, bools); });
  }

  std::vector<std::int64_t> numbers_ = std::vector<std::int64_t>(64);
};

// Columns as tensors

TEST_F(ArrowTensorTest, EveryTypeOfFixedWidth) {
  const struct {
    TypeId id;
    const char* name;
  } types[] = {{TypeId::kInt8, "int8"},        {TypeId::kInt16, "int16"},     {TypeId::kInt32, "int32"},
               {TypeId::kInt64, "int64"},      {TypeId::kUInt8, "uint8"},     {TypeId::kUInt16, "uint16"},
               {TypeId::kUInt32, "uint32"},    {TypeId::kUInt64, "uint64"},   {TypeId::kFloat16, "float16"},
               {TypeId::kFloat32, "float32"},  {TypeId::kFloat64, "float64"}, {TypeId::kDate64, "<M8[ms]"},
               {TypeId::kTimestamp, "<M8[s]"}, {TypeId::kDuration, "<m8[s]"}};
  for (const auto& [id, name] : types) {
    const Tensor tensor = tensor_of_column(numbers(field_of(id), 5), BoolPolicy::kRefuse);
    EXPECT_EQ(array::element_type_name(tensor.type), name);
    EXPECT_THAT(tensor.shape(), ElementsAre(5));
    EXPECT_EQ(tensor.data, numbers_.data());
    EXPECT_TRUE(tensor.read_only);
    EXPECT_TRUE(tensor.c_contiguous());
    EXPECT_EQ(tensor.kind, device::MemoryKind::kHost);
  }
  Field nano = field_of(TypeId::kTimestamp);
  nano.type.unit = array::TimeUnit::kNano;
  EXPECT_EQ(array::element_type_name(tensor_of_column(numbers(nano, 1), BoolPolicy::kRefuse).type), "<M8[ns]");
  const Tensor bytes = tensor_of_column(numbers(field_of(TypeId::kFixedSizeBinary, 3), 4), BoolPolicy::kRefuse);
  EXPECT_EQ(bytes.type.itemsize(), 3);
  EXPECT_THAT(bytes.strides(), ElementsAre(3));
}

TEST_F(ArrowTensorTest, TypesThatAreNoArraySayWhatToDo) {
  for (const TypeId id : {TypeId::kDate32, TypeId::kTime32, TypeId::kUtf8, TypeId::kIntervalMonthDayNano}) {
    RecordBatch column = numbers(field_of(id), 0);
    column.buffers.resize(static_cast<std::size_t>(column.schema->n_buffers()));
    EXPECT_THAT(refusal(column), HasSubstr("cast it to a number first"));
  }
  RecordBatch nothing = numbers(field_of(TypeId::kNull), 0);
  nothing.buffers.clear();
  EXPECT_THAT(refusal(nothing), HasSubstr("no elements of fixed size"));
}

TEST_F(ArrowTensorTest, WhatATypeMeansIsntLost) {
  Field zoned = field_of(TypeId::kTimestamp);
  zoned.type.timezone = "Europe/Zurich";
  EXPECT_THAT(refusal(numbers(zoned, 5)), HasSubstr("time zone \"Europe/Zurich\""));
  EXPECT_THAT(refusal(numbers(list_of(2, zoned), 2)), HasSubstr("Europe/Zurich"));
  Field truth = field_of(TypeId::kInt8);
  truth.metadata = {{"ARROW:extension:name", "arrow.bool8"}};
  EXPECT_THAT(refusal(numbers(truth, 5)), HasSubstr("extension type arrow.bool8"));
  EXPECT_THAT(refusal(numbers(list_of(2, truth), 2)), HasSubstr("use its storage"));
  EXPECT_THAT(refusal(numbers(list_of(2, shaped(R"({"shape": [3]})", 3)), 2)), HasSubstr("fixed_shape_tensor"))
      << "of the rows alone its shape is known";
}

TEST_F(ArrowTensorTest, ABatchOfSeveralColumnsIsRefused) {
  RecordBatch batch = numbers(field_of(TypeId::kInt64), 5);
  batch.schema =
      std::make_shared<const array::Schema>(std::vector<Field>{field_of(TypeId::kInt64), field_of(TypeId::kInt64)});
  EXPECT_THAT(refusal(batch), HasSubstr("a batch of 2 columns"));
}

TEST_F(ArrowTensorTest, OffsetsAreFoldedIn) {
  RecordBatch column = numbers(field_of(TypeId::kInt64), 5);
  column.nodes[0].offset = 3;
  EXPECT_EQ(tensor_of_column(column, BoolPolicy::kRefuse).data, numbers_.data() + 3);
  RecordBatch nested = numbers(list_of(2, list_of(3, field_of(TypeId::kInt64))), 2);
  nested.nodes[0].offset = 1;
  nested.nodes[1] = {8, 0, 2};
  nested.nodes[2] = {30, 0, 5};
  const Tensor tensor = tensor_of_column(nested, BoolPolicy::kRefuse);
  EXPECT_THAT(tensor.shape(), ElementsAre(2, 2, 3));
  EXPECT_EQ(tensor.data, numbers_.data() + (1 * 2 + 2) * 3 + 5);
}

TEST_F(ArrowTensorTest, NullsAreRefusedWhereThereAreAny) {
  const std::uint8_t all = 0xff;
  const std::uint8_t some = 0xfd;
  RecordBatch column = numbers(field_of(TypeId::kInt64), 5);
  column.buffers[0] = {&some, 1};
  column.nodes[0].null_count = 1;
  EXPECT_THAT(refusal(column), HasSubstr("has 1 null, which"));
  column.nodes[0].null_count = -1;
  EXPECT_THAT(refusal(column), HasSubstr("has 1 null, which"));
  column.buffers[0] = {&all, 1};
  EXPECT_EQ(tensor_of_column(column, BoolPolicy::kRefuse).data, numbers_.data());
  RecordBatch nested = numbers(list_of(2, field_of(TypeId::kInt64)), 4);
  const std::uint8_t two = 0xf9;
  nested.nodes[1].null_count = 2;
  nested.buffers[1] = {&two, 1};
  EXPECT_THAT(refusal(nested), HasSubstr("2 nulls"));
  RecordBatch sliced = nested;
  sliced.nodes[0].offset = 1;
  sliced.num_rows = sliced.nodes[0].length = 1;
  EXPECT_THAT(refusal(sliced), HasSubstr("has 1 null, which"));
  sliced.nodes[0].offset = 2;
  EXPECT_EQ(tensor_of_column(sliced, BoolPolicy::kRefuse).data, numbers_.data() + 4) << "shows none of them";
  sliced.device = {.type = device::DeviceType::kCuda, .id = 0};
  EXPECT_THAT(refusal(sliced), HasSubstr("2 nulls")) << "whose bits nobody may read";
}

TEST_F(ArrowTensorTest, OwnersAreKept) {
  int released = 0;
  RecordBatch column = numbers(field_of(TypeId::kInt64), 5);
  column.owner = counting_owner(&released);
  Tensor tensor = tensor_of_column(column, BoolPolicy::kRefuse);
  column = RecordBatch();
  EXPECT_EQ(released, 0);
  tensor = Tensor();
  EXPECT_EQ(released, 1);
}

TEST_F(ArrowTensorTest, BoolIsConvertedOnRequest) {
  const std::uint8_t bits[] = {0b10110100, 0b1};
  RecordBatch column = column_of(field_of(TypeId::kBool), 6, bits, 2);
  column.nodes[0].offset = 3;
  EXPECT_THAT(refusal(column), HasSubstr("from_arrow(column, bits=True)"));
  const Tensor tensor = tensor_of_column(column, BoolPolicy::kConvert);
  const std::uint8_t bytes[] = {0, 1, 1, 0, 1, 1};
  EXPECT_EQ(std::memcmp(tensor.data, bytes, 6), 0);
  EXPECT_THAT(refusal(on_device(column, DeviceType::kCuda, 0), BoolPolicy::kConvert), HasSubstr("copy the column"));
}

// Fixed-shape tensors

TEST_F(ArrowTensorTest, FixedShapeTensorsHaveTheirShape) {
  const Tensor tensor = tensor_of_column(numbers(shaped(R"({"shape":[2,3],"dim_names":["a","b"]})", 6), 4), {});
  EXPECT_THAT(tensor.shape(), ElementsAre(4, 2, 3));
  EXPECT_THAT(tensor.strides(), ElementsAre(48, 24, 8));
  const Tensor turned =
      tensor_of_column(numbers(shaped(R"( { "permutation" : [2, 0, 1] , "shape" : [ 1,2 , 3 ] } )", 6), 4), {});
  EXPECT_THAT(turned.shape(), ElementsAre(4, 3, 1, 2));
  EXPECT_THAT(turned.strides(), ElementsAre(48, 8, 48, 24));
  const Tensor scalars = tensor_of_column(numbers(shaped(R"({"shape":[]})", 1), 4), {});
  EXPECT_THAT(scalars.shape(), ElementsAre(4));
}

TEST_F(ArrowTensorTest, MetadataThatMakesNoSenseIsRefused) {
  for (const char* json : {"",
                           "{",
                           "[]",
                           "{}",
                           "null",
                           R"({"shape":6})",
                           R"({"shape":[6})",
                           R"({"shape":[6])",
                           R"({"shape":[6]}})",
                           R"({"shape":[6],})",
                           R"({"shape":[6.0]})",
                           R"({"shape":["6"]})",
                           R"({"shape":[true]})",
                           R"({"shape":[6,]})",
                           R"({"shape":[-6]})",
                           R"({"shape":[-2,-3]})",
                           R"({"shape":[5]})",
                           R"({"shape":[99999999999999999999]})",
                           R"({"shape":[4611686018427387904,4]})",
                           R"({"shape":[2,3],"permutation":[0]})",
                           R"({"shape":[2,3],"permutation":[0,0]})",
                           R"({"shape":[2,3],"permutation":[0,2]})",
                           R"({"shape":[2,3],"permutation":[-1,0]})",
                           R"({"shape":[2,3],"permutation":"10"})",
                           R"({"dim_names":["a"]})",
                           R"({"shape":[6],"x":})",
                           R"({"shape\":[6]})"}) {
    EXPECT_THROW(tensor_of_column(numbers(shaped(json, 6), 4), BoolPolicy::kRefuse), InvalidDataError) << json;
  }
  Field bare = shaped("", 6);
  bare.metadata.pop_back();
  EXPECT_THROW(tensor_of_column(numbers(bare, 4), BoolPolicy::kRefuse), InvalidDataError);
  std::string ones = R"({"shape":[1)";
  for (int i = 0; i < 70; ++i) ones += ",1";
  EXPECT_THAT(refusal(numbers(shaped(ones + "]}", 1), 4)), HasSubstr("dimensions"));
}

TEST_F(ArrowTensorTest, CutAndChangedMetadataIsReadOrRefused) {
  const std::string good = R"({"shape":[1,2,3],"dim_names":["a\"","b",null],"permutation":[2,0,1]})";
  int read = 0;
  const auto attempt = [&](const std::string& json) {
    try {
      const Tensor tensor = tensor_of_column(numbers(shaped(json, 6), 4), BoolPolicy::kRefuse);
      EXPECT_EQ(tensor.nbytes(), 4 * 6 * 8) << json;
      ++read;
    } catch (const InvalidDataError&) {
      // as it should be
    } catch (const ExportError&) {
      // more dimensions than there can be
    }
  };
  for (std::size_t n = 0; n < good.size(); ++n) attempt(good.substr(0, n));
  EXPECT_EQ(read, 0) << "no part of it is whole";
  for (std::size_t n = 1; n < good.size(); ++n) attempt(good.substr(n));
  EXPECT_EQ(read, 0);
  attempt(good);
  EXPECT_EQ(read, 1);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char c : std::string("\"\\{}[],:-09ax \0\xff", 16)) {
      std::string changed = good;
      changed[at] = c;
      attempt(changed);
      changed = good;
      changed.insert(at, 1, c);
      attempt(changed);
    }
    std::string without = good;
    attempt(without.erase(at, 1));
  }
  EXPECT_GT(read, 1);
}

// Columns on devices: of which no byte is read

class ArrowTensorDeviceTest : public device::SimTest {
 protected:
  /// Memory that the host may not touch.
  device::Buffer buffer_ = ready(4096);
};

TEST_F(ArrowTensorDeviceTest, NoByteIsRead) {
  RecordBatch column =
      on_device(column_of(list_of(3, field_of(TypeId::kFloat32)), 5, buffer_.data(), 4096), DeviceType::kExtDev, 1);
  column.nodes[0].offset = 2;
  const Tensor tensor = tensor_of_column(column, BoolPolicy::kRefuse);
  EXPECT_EQ(tensor.data, static_cast<std::byte*>(buffer_.data()) + 24);
  EXPECT_EQ(tensor.device, device::kOne);
  EXPECT_EQ(tensor.kind, device::MemoryKind::kDevice);
  const RecordBatch back = column_of_tensor(tensor, BoolPolicy::kRefuse);
  EXPECT_EQ(back.device, (device::Device{device::DeviceType::kExtDev, 1}));
  EXPECT_EQ(back.buffers.back().data, tensor.data);
  EXPECT_EQ(back.buffers.back().size, 60);
}

TEST_F(ArrowTensorDeviceTest, TheTypeOfAMaskedTensorIsSaidWithoutALookAtTheMask) {
  Tensor tensor = made_tensor("int64", {5}, {8}, buffer_.data());
  tensor.device = device::kOne;
  tensor.mask = std::make_shared<const Tensor>(made_tensor("bool", {5}, {1}, buffer_.data()));
  const Field column = schema_of_tensor(tensor, BoolPolicy::kRefuse)->fields()[0];
  EXPECT_EQ(column.type.id, TypeId::kInt64);
  EXPECT_TRUE(column.nullable);
  tensor.mask = nullptr;
  EXPECT_EQ(*schema_of_tensor(tensor, BoolPolicy::kRefuse), *column_of_tensor(tensor, BoolPolicy::kRefuse).schema);
}

TEST_F(ArrowTensorDeviceTest, NullCountsMustBeKnown) {
  RecordBatch column = on_device(column_of(field_of(TypeId::kInt64), 5, buffer_.data(), 4096), DeviceType::kExtDev, 0);
  column.nodes[0].null_count = -1;
  column.buffers[0] = {buffer_.data(), 1};
  EXPECT_THAT(message_of<ExportError>([&] { tensor_of_column(column, BoolPolicy::kRefuse); }),
              HasSubstr("give its null count"));
  column.nodes[0].null_count = 0;
  EXPECT_EQ(tensor_of_column(column, BoolPolicy::kRefuse).data, buffer_.data());
}

TEST_F(ArrowTensorDeviceTest, EachTypeOfDeviceSaysItsKindOfMemory) {
  const auto kind_on = [&](DeviceType type) {
    return tensor_of_column(on_device(column_of(field_of(TypeId::kInt64), 5, buffer_.data(), 4096), type, 0), {}).kind;
  };
  EXPECT_EQ(kind_on(DeviceType::kCuda), device::MemoryKind::kDevice);
  EXPECT_EQ(kind_on(DeviceType::kCudaHost), device::MemoryKind::kHost);
  EXPECT_EQ(kind_on(DeviceType::kRocmHost), device::MemoryKind::kHost);
  EXPECT_EQ(kind_on(DeviceType::kCudaManaged), device::MemoryKind::kShared);
}

TEST_F(ArrowTensorDeviceTest, HandlesKeepTheirOffsetApart) {
  int handle = 0;
  RecordBatch column = on_device(column_of(field_of(TypeId::kInt64), 5, &handle, 4096), DeviceType::kOpenCl, 0);
  column.nodes[0].offset = 2;
  const Tensor tensor = tensor_of_column(column, BoolPolicy::kRefuse);
  EXPECT_EQ(tensor.data, &handle);
  EXPECT_EQ(tensor.byte_offset, 16u);
  EXPECT_THAT(message_of<ExportError>([&] { column_of_tensor(tensor, BoolPolicy::kRefuse); }),
              HasSubstr("16 bytes after"));
}

TEST_F(ArrowTensorDeviceTest, TheEventGoesBothWays) {
  slow(20ms);
  std::vector<std::int64_t> numbers(8, 7);
  RecordBatch column = column_of_tensor(
      copy(made_tensor("int64", {8}, {8}, numbers.data()), {context_, device::MemoryKind::kDevice, context_, queue_}),
      BoolPolicy::kRefuse);
  ASSERT_NE(column.event.native(), nullptr);
  // The tensor is gone; its event isn't, and is still the one to wait for.
  const device::Event event = context_->wrap_event(device::NativeEvent(column.event.native()), nullptr);
  EXPECT_FALSE(context_->query(event));
  Tensor tensor = tensor_of_column(column, BoolPolicy::kRefuse);
  EXPECT_EQ(tensor.event.native(), column.event.native());
  column = RecordBatch();
  context_->wait(tensor.event);
  const std::string text = download({.data = tensor.data,
                                     .size = 64,
                                     .device = tensor.device,
                                     .kind = device::MemoryKind::kDevice,
                                     .read_only = true});
  EXPECT_EQ(std::memcmp(text.data(), numbers.data(), 64), 0);
  tensor = Tensor();
  finish(queue_);
}

TEST_F(ArrowTensorDeviceTest, TheColumnKeepsTheEvent) {
  int released = 0;
  int native = 0;
  Tensor tensor = made_tensor("int64", {8}, {8}, buffer_.data());
  tensor.device = device::kZero;
  tensor.event = device::Event(device::NativeEvent(&native), std::const_pointer_cast<void>(counting_owner(&released)));
  RecordBatch column = column_of_tensor(tensor, BoolPolicy::kRefuse);
  EXPECT_EQ(column.event.native(), &native);
  tensor = Tensor();
  EXPECT_EQ(released, 0);
  column = RecordBatch();
  EXPECT_EQ(released, 1);
}

TEST_F(ArrowTensorDeviceTest, AFailedEventIsThrown) {
  Tensor tensor = made_tensor("int64", {8}, {8}, buffer_.data());
  tensor.device = device::kZero;
  tensor.event = device::Event::failed(std::make_shared<const SystemError>("the kernel before it failed"));
  EXPECT_THROW(column_of_tensor(tensor, BoolPolicy::kRefuse), SystemError);
}

// Tensors as columns

TEST_F(ArrowTensorTest, TensorsAreColumnsAndBack) {
  for (const char* type : {"int8", "uint16", "int32", "float16", "float32", "float64", "<M8[us]", "<m8[ns]", "|V5"}) {
    const std::int64_t w = array::parse_element_type(type).itemsize();
    for (const auto& shape : {std::vector<std::int64_t>{6}, {2, 3}, {2, 1, 3}, {0}, {0, 3}, {3, 0}}) {
      Tensor tensor = made_tensor(type, shape, shape, numbers_.data());
      array::set_row_major(&tensor, "a test");
      if (tensor.size() == 0) tensor.data = nullptr;
      const RecordBatch column = column_of_tensor(tensor, BoolPolicy::kRefuse);
      EXPECT_EQ(column.num_rows, shape[0]);
      const Tensor back = tensor_of_column(column, BoolPolicy::kRefuse);
      EXPECT_EQ(back.type, tensor.type) << type;
      EXPECT_EQ(back.data, tensor.data) << type;
      EXPECT_THAT(std::vector<std::int64_t>(back.shape().begin(), back.shape().end()), shape);
      EXPECT_EQ(column.buffers.back().size, tensor.size() * w);
    }
  }
}

TEST_F(ArrowTensorTest, TheColumnKeepsTheOwner) {
  int released = 0;
  Tensor tensor = made_tensor("int64", {6}, {8}, numbers_.data());
  tensor.owner = counting_owner(&released);
  RecordBatch column = column_of_tensor(tensor, BoolPolicy::kRefuse);
  tensor = Tensor();
  EXPECT_EQ(released, 0);
  column = RecordBatch();
  EXPECT_EQ(released, 1);
}

TEST_F(ArrowTensorTest, WhatArrowHasntIsRefused) {
  void* const data = numbers_.data();
  EXPECT_THAT(refusal(made_tensor("int64", {}, {}, data)), HasSubstr("without dimensions"));
  EXPECT_THAT(refusal(made_tensor("int64", {3}, {16}, data)), HasSubstr("(16,)"));
  EXPECT_THAT(refusal(made_tensor("int64", {2, 3}, {8, 16}, data)), HasSubstr("contiguous copy"));
  for (const char* type : {">i4", "complex64", "bfloat16", "<M8[D]", "|S4", "<U3"}) {
    const std::int64_t w = array::parse_element_type(type).itemsize();
    EXPECT_THAT(refusal(made_tensor(type, {2}, {w}, data)), HasSubstr("Arrow has no type")) << type;
  }
  EXPECT_THAT(refusal(made_tensor("bool", {8}, {1}, data)), HasSubstr("to_arrow(bits=True)"));
  Tensor wide = made_tensor("int8", {1, std::int64_t{1} << 31}, {std::int64_t{1} << 31, 1}, data);
  EXPECT_THAT(refusal(wide), HasSubstr("fixed-size list"));
}

TEST_F(ArrowTensorTest, BoolBecomesBits) {
  std::uint8_t bytes[] = {1, 0, 0, 5, 1, 0, 1, 1, 0, 1};
  const RecordBatch column = column_of_tensor(made_tensor("bool", {10}, {1}, bytes), BoolPolicy::kConvert);
  const auto* const bits = static_cast<const std::uint8_t*>(column.buffers[1].data);
  EXPECT_EQ(bits[0], 0b11011001);
  EXPECT_EQ(bits[1] & 3, 0b10);
  const RecordBatch reversed = column_of_tensor(made_tensor("bool", {10}, {-1}, bytes + 9), BoolPolicy::kConvert);
  EXPECT_EQ(static_cast<const std::uint8_t*>(reversed.buffers[1].data)[0], 0b01101101);
  const Tensor back = tensor_of_column(
      column_of_tensor(made_tensor("bool", {2, 5}, {5, 1}, bytes), BoolPolicy::kConvert), BoolPolicy::kConvert);
  EXPECT_THAT(back.shape(), ElementsAre(2, 5));
  EXPECT_EQ(static_cast<const std::uint8_t*>(back.data)[9], 1);
}

TEST_F(ArrowTensorTest, AMaskBecomesValidity) {
  Tensor tensor = made_tensor("int64", {5}, {8}, numbers_.data());
  std::int32_t valid[] = {1, 0, 256, 0, 7, 7, 7, 7, 7, 7};
  tensor.mask = std::make_shared<const Tensor>(made_tensor("int32", {5}, {8}, valid));
  const RecordBatch column = column_of_tensor(tensor, BoolPolicy::kRefuse);
  EXPECT_EQ(column.nodes[0].null_count, 0) << "every second number is true";
  EXPECT_EQ(column.buffers[0].data, nullptr);
  EXPECT_TRUE(column.schema->fields()[0].nullable);
  tensor.mask = std::make_shared<const Tensor>(made_tensor("int32", {5}, {4}, valid));
  const RecordBatch some = column_of_tensor(tensor, BoolPolicy::kRefuse);
  EXPECT_EQ(some.nodes[0].null_count, 2);
  EXPECT_EQ(*static_cast<const std::uint8_t*>(some.buffers[0].data), 0b10101);
  EXPECT_EQ(some.buffers[1].data, numbers_.data());
  Tensor nested = made_tensor("int64", {2, 3}, {24, 8}, numbers_.data());
  nested.mask = std::make_shared<const Tensor>(made_tensor("int8", {2, 3}, {3, 1}, valid));
  EXPECT_THAT(refusal(nested), HasSubstr("fill the masked elements"));
}

}  // namespace
}  // namespace crossdock::exchange
