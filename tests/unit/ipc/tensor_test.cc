#include "ipc/tensor.h"

#include <arrow_message_generated.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "crossdock/core/error.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using array::TypeId;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TensorHeader matrix() {
  TensorHeader tensor;
  tensor.type = {.id = TypeId::kFloat32};
  tensor.shape = {3, 4};
  tensor.strides = row_major_strides(tensor.type, tensor.shape);
  tensor.data = {0, 48};
  return tensor;
}

TensorHeader there_and_back(const TensorHeader& tensor) {
  Encoder encoder;
  const Message message = Message::parse(encoder.tensor(tensor), {}, "a tensor");
  EXPECT_EQ(message.kind(), MessageKind::kTensor);
  EXPECT_TRUE(message.has_body());
  return message.tensor();
}

TEST(Tensor, ComesBack) {
  TensorHeader tensor = matrix();
  tensor.names = {"row", ""};
  tensor.custom_metadata = {{"a", "b"}};
  const TensorHeader back = there_and_back(tensor);
  EXPECT_EQ(back.type, tensor.type);
  EXPECT_THAT(back.shape, ElementsAre(3, 4));
  EXPECT_THAT(back.strides, ElementsAre(16, 4));
  EXPECT_THAT(back.names, ElementsAre("row", ""));
  EXPECT_EQ(back.data.length, 48);
  EXPECT_EQ(back.body_length, 64);
  EXPECT_EQ(back.custom_metadata, tensor.custom_metadata);
}

TEST(Tensor, ItsBodyMayEndWithItsData) {
  TensorHeader tensor = matrix();
  tensor.body_length = 48;
  EXPECT_EQ(there_and_back(tensor).body_length, 48);
  tensor.body_length = 47;
  EXPECT_THAT(error_of<InvalidDataError>([&] { there_and_back(tensor); }), HasSubstr("behind its body of 47"));
}

TEST(Tensor, EveryTypeOfOneWidth) {
  int carried = 0;
  for (const array::Field& field : std::vector(every_type()->fields())) {
    TensorHeader tensor;
    tensor.type = field.type;
    tensor.shape = {2};
    tensor.strides = {64};
    tensor.data = {0, 128};
    const array::TypeLayout layout = array::type_layout(field.type);
    const bool fits = layout.n_buffers == 2 && layout.buffers[1] == array::BufferKind::kFixed && layout.width > 0 &&
                      layout.n_children == 0;
    if (fits) {
      EXPECT_EQ(there_and_back(tensor).type, field.type) << field.name;
      ++carried;
    } else {
      EXPECT_THAT(error_of<InvalidDataError>([&] { there_and_back(tensor); }), HasSubstr("fixed width")) << field.name;
    }
  }
  EXPECT_GT(carried, 20);
}

TEST(Tensor, AnyStrides) {
  TensorHeader tensor = matrix();
  tensor.strides = {4, 12};  // column by column
  EXPECT_THAT(there_and_back(tensor).strides, ElementsAre(4, 12));
  tensor.strides = {0, 0};  // one value again and again
  tensor.data = {64, 4};
  EXPECT_THAT(there_and_back(tensor).strides, ElementsAre(0, 0));
  EXPECT_EQ(there_and_back(tensor).body_length, 128);
  tensor.shape = {};
  tensor.strides = {};
  EXPECT_THAT(there_and_back(tensor).shape, IsEmpty()) << "a single value";
  tensor.shape = {5, 0, 7};
  tensor.strides = row_major_strides(tensor.type, tensor.shape);
  tensor.data = {0, 0};
  EXPECT_THAT(there_and_back(tensor).shape, ElementsAre(5, 0, 7)) << "no value at all";
}

TEST(Tensor, WithoutStridesItIsRowMajor) {
  flatbuffers::FlatBufferBuilder b;
  const std::vector<flatbuffers::Offset<flatbuf::TensorDim>> dimensions{flatbuf::CreateTensorDim(b, 3),
                                                                        flatbuf::CreateTensorDim(b, 5)};
  const auto shape = b.CreateVector(dimensions);
  const auto type = flatbuf::CreateInt(b, 16, true).Union();
  const flatbuf::Buffer data(8, 30);
  const auto tensor = flatbuf::CreateTensor(b, flatbuf::Type::Int, type, shape, 0, &data);
  b.Finish(flatbuf::CreateMessage(b, flatbuf::MetadataVersion::V4, flatbuf::MessageHeader::Tensor, tensor.Union(), 38));
  const TensorHeader read =
      Message::parse({reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize()}, {}, "made").tensor();
  EXPECT_THAT(read.strides, ElementsAre(10, 2));
  EXPECT_EQ(read.data.offset, 8);
  EXPECT_THAT(read.names, IsEmpty());
}

/// What pyarrow writes of numpy.array([[1, 2, 3], [4, 5, 6]], "<i2").T, its dimensions named "a" and "b".
TEST(Tensor, OfAnotherWriter) {
  constexpr std::string_view kHex =
      "14000000000000000c001a000600050008000c000c00000000040400200000000c000000000000000000000000000e002800070008000c00"
      "100014000e0000000000000290000000340000001800000000000000000000000c0000000000000000000000020000000200000000000000"
      "06000000000000000000000002000000300000000c0000000800100008000400080000000c00000002000000000000000100000062000000"
      "08001400080004000800000010000000030000000000000000000000010000006100000008000c0008000700080000000000000110000000"
      "000000000000000000000000000000000000000000000000";
  alignas(8) std::byte bytes[256]{};
  ASSERT_LE(kHex.size() / 2, sizeof bytes);
  for (std::size_t i = 0; i < kHex.size() / 2; ++i) {
    bytes[i] = static_cast<std::byte>(std::stoi(std::string(kHex.substr(2 * i, 2)), nullptr, 16));
  }
  const TensorHeader tensor = Message::parse(bytes, {}, "pyarrow's").tensor();
  EXPECT_EQ(tensor.type.id, TypeId::kInt16);
  EXPECT_THAT(tensor.shape, ElementsAre(3, 2));
  EXPECT_THAT(tensor.strides, ElementsAre(2, 6));
  EXPECT_THAT(tensor.names, ElementsAre("a", "b"));
  EXPECT_EQ(tensor.data.length, 12);
}

template <class Change>
std::string refused(Change&& change) {
  TensorHeader tensor = matrix();
  change(&tensor);
  return error_of<InvalidDataError>([&] { Encoder().tensor(tensor); });
}

TEST(Tensor, NumbersThatMakeNoSense) {
  EXPECT_THAT(refused([](TensorHeader* t) { t->shape[0] = -1; }), HasSubstr("a size of -1"));
  EXPECT_THAT(refused([](TensorHeader* t) { t->strides[1] = -4; }), HasSubstr("a stride of -4"));
  EXPECT_THAT(refused([](TensorHeader* t) { t->strides.pop_back(); }), HasSubstr("1 strides"));
  EXPECT_THAT(refused([](TensorHeader* t) { t->names = {"one"}; }), HasSubstr("1 names"));
  EXPECT_THAT(refused([](TensorHeader* t) { t->shape = {kMax, kMax}; }), HasSubstr("overflows 63 bits"));
  EXPECT_THAT(refused([](TensorHeader* t) { t->data.length = 47; }), HasSubstr("aren't inside its data"));
  EXPECT_THAT(refused([](TensorHeader* t) { t->data.offset = -1; }), HasSubstr("aren't inside its data"));
  EXPECT_THAT(refused([](TensorHeader* t) { t->data = {kMax, 48}; }), HasSubstr("aren't inside its data"));
  EXPECT_THAT(refused([](TensorHeader* t) {
                t->shape.assign(65, 1);
                t->strides.assign(65, 0);
              }),
              HasSubstr("65 dimensions"));
  EXPECT_THAT(error_of<InvalidDataError>([] {
                row_major_strides({.id = TypeId::kInt8}, {kMax, kMax, 2});
              }),
              HasSubstr("overflows 63 bits"));
}

TEST(Tensor, ReadFromElsewhereItIsCheckedAsWell) {
  Encoder encoder;
  auto bytes = to_vector(encoder.tensor(matrix()));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const unsigned flip : {0x01u, 0x80u, 0xffu}) {
      bytes[i] ^= static_cast<std::byte>(flip);
      try {
        const Message message = Message::parse(bytes, {}, "flipped");
        if (message.kind() == MessageKind::kTensor) {
          const TensorHeader read = message.tensor();
          EXPECT_LE(tensor_extent(read, "flipped"), read.data.length);
          EXPECT_LE(read.data.offset + read.data.length, read.body_length);
        }
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("flipped"));
      }
      bytes[i] ^= static_cast<std::byte>(flip);
    }
  }
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    try {
      Message::parse(cut, {}, "cut").tensor();
    } catch (const InvalidDataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("cut"));
    }
  }
}

TEST(Tensor, AskedOfAnotherMessage) {
  Encoder encoder;
  const auto schema = floats(1);
  const Message message = Message::parse(encoder.schema(*schema), {}, "a schema");
  EXPECT_THROW(message.tensor(), InvalidArgumentError);
}

}  // namespace
}  // namespace crossdock::ipc::testing
