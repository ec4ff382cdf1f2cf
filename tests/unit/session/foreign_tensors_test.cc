// Servers that send tensors as none of Crossdock's does, and servers that lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/bytes.h"
#include "crossdock/exchange/copy.h"
#include "fake_server.h"
#include "ipc/tensor.h"
#include "session/tensor_format.h"
#include "support/leftovers.h"

namespace crossdock::session {
namespace {

using dissociated::BodyType;
using ::testing::HasSubstr;
using transport::Connection;

/// One tensor of 4 int32 in a region, and what a server needs to send it: the truth, for scripts to bend.
struct TensorTruth {
  static constexpr std::int32_t kValues[] = {1, 2, 3, 4, 5, 6, 7, 8};

  ipc::TensorHeader header;
  std::shared_ptr<const array::Schema> schema = std::make_shared<array::Schema>(std::vector<array::Field>{});
  std::shared_ptr<const device::Region> region;
  std::vector<dissociated::RemoteBuffer> remote;
  bool by_value = false;
  std::size_t cut = 0;  ///< Bytes that are missing at the end of a body by value.

  TensorTruth() {
    device::RegionWriter writer("test");
    const std::uint64_t at = writer.append(std::as_bytes(std::span(kValues)));
    region = writer.freeze();
    remote = {{device::make_address(7, at), 16}};
    header.type.id = array::TypeId::kInt32;
    header.shape = {4};
    header.strides = {4};
    header.data = {0, 16};
    header.body_length = 16;
  }
  void begin(Connection& c) const {
    c.announce(7, region);
    ipc::Encoder encoder;
    Truth::metadata(c, 0, encoder.schema(*schema));
  }
  void message(Connection& c, std::uint32_t number = 1) const {
    ipc::Encoder encoder;
    Truth::metadata(c, number, encoder.tensor(header));
  }
  void body(Connection& c, std::uint32_t number = 1) const {
    if (by_value) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(header.body_length));
      const ByteSpan values = std::as_bytes(std::span(kValues));
      std::copy_n(values.begin(), std::min(bytes.size(), values.size()), bytes.begin());
      const ByteSpan sent = ByteSpan(bytes).first(bytes.size() - cut);
      c.send_body(dissociated::write_tag(number, BodyType::kPacked), {&sent, 1}, nullptr);
      return;
    }
    std::vector<std::byte> bytes;
    dissociated::write_remote_body(remote, &bytes);
    c.send_tagged(dissociated::write_tag(number, BodyType::kRemote), bytes, {});
  }
};

using Change = std::function<void(TensorTruth&)>;

/// Returns the elements that a client reads of a server that sends one tensor, changed so; or the error's name.
std::string elements_or_error(const Change& change, array::Tensor* out = nullptr) {
  std::string result;
  const FakeServer server([&](Connection& c) {
    TensorTruth truth;
    change(truth);
    truth.begin(c);
    truth.message(c);
    truth.body(c);
    Truth::end(c, 2);
  });
  try {
    Client client(server.uri());
    TensorOptions how;
    how.out = out;
    const array::Tensor tensor = client.tensor("it", how);
    std::vector<std::int32_t> values(static_cast<std::size_t>(tensor.size()));
    exchange::pack(tensor, values.data());
    for (const std::int32_t value : values) result += std::to_string(value) + " ";
  } catch (const Error& error) {
    result = error_name(error.code());
  }
  return result;
}

TEST(ForeignTensors, AreReadWithoutOurMetadata) {
  EXPECT_EQ(elements_or_error([](TensorTruth&) {}), "1 2 3 4 ");
  EXPECT_EQ(elements_or_error([](TensorTruth& t) { t.by_value = true; }), "1 2 3 4 ");
}

TEST(ForeignTensors, MayHaveStrides) {
  const auto wide = [](TensorTruth& t) {
    t.header.shape = {2, 2};
    t.header.strides = {16, 8};
    t.header.data = {0, 32};
    t.header.body_length = 32;
    t.remote[0].length = 32;
  };
  EXPECT_EQ(elements_or_error(wide), "1 3 5 7 ");
  EXPECT_EQ(elements_or_error([&](TensorTruth& t) {
              wide(t);
              t.by_value = true;
            }),
            "1 3 5 7 ");
  EXPECT_EQ(elements_or_error([](TensorTruth& t) { t.header.strides = {0}; }), "1 1 1 1 ");
}

TEST(ForeignTensors, MayBePaddedAndBegunLater) {
  EXPECT_EQ(elements_or_error([](TensorTruth& t) {
              t.by_value = true;
              t.header.data = {8, 16};
              t.header.body_length = 64;
            }),
            "3 4 5 6 ");
}

TEST(ForeignTensors, MayBeEmpty) {
  for (const bool by_value : {false, true}) {
    EXPECT_EQ(elements_or_error([&](TensorTruth& t) {
                t.header.shape = {0};
                t.header.data = {0, 0};
                t.header.body_length = 0;
                t.remote = {{}};
                t.by_value = by_value;
              }),
              "");
  }
}

TEST(ForeignTensors, AreAlignedIfTheyArent) {
  EXPECT_EQ(elements_or_error([](TensorTruth& t) { t.remote[0].address += 2; }), "131072 196608 262144 327680 ");
}

TEST(ForeignTensors, WhatIsCopiedToAlignThemIsLimited) {
  // Many tensors that are the same bytes, and a broadcast one that seems to be large.
  const FakeServer server([](Connection& c) {
    TensorTruth truth;
    truth.begin(c);
    truth.remote[0].address += 2;
    for (std::uint32_t number = 1; number <= 3; ++number) {
      truth.header.custom_metadata = {{"crossdock:path", "[\"" + std::to_string(number) + "\"]"}};
      if (number == 2) {
        truth.header.shape = {std::int64_t{1} << 40, 4};
        truth.header.strides = {0, 4};
      }
      truth.message(c, number);
      truth.body(c, number);
    }
    Truth::end(c, 4);
  });
  Client client(server.uri());
  TensorOptions how;
  std::uint64_t copied = 0;
  how.bytes_copied = &copied;
  how.limits.max_decompressed_bytes = 47;
  EXPECT_THROW(client.tensors("it", how), InvalidDataError);
}

TEST(ForeignTensors, LiesAreFoundOut) {
  const auto marked = [](const char* key, const char* value) {
    return [=](TensorTruth& t) { t.header.custom_metadata = {{key, value}}; };
  };
  const std::pair<const char*, Change> lies[] = {
      {"a body that is too short", [](TensorTruth& t) { t.remote[0].length = 12; }},
      {"another number of buffers", [](TensorTruth& t) { t.remote.push_back({}); }},
      {"no buffer", [](TensorTruth& t) { t.remote.clear(); }},
      {"memory outside its region", [](TensorTruth& t) { t.remote[0].address += 1 << 20; }},
      {"an end outside its region",
       [](TensorTruth& t) {
         t.header.shape = {1 << 20};
         t.header.data.length = t.header.body_length = 4 << 20;
         t.remote[0].length = 4 << 20;
       }},
      {"a body by value that is too short",
       [](TensorTruth& t) {
         t.by_value = true;
         t.cut = 4;
       }},
      {"a dtype of another width", marked("crossdock:dtype", "<c16")},
      {"a dtype that is none", marked("crossdock:dtype", "float")},
      {"a dtype of Python objects", marked("crossdock:dtype", "|O4")},
      {"a path that is none", marked("crossdock:path", "weights")},
      {"a path", marked("crossdock:path", "[\"a\"]")},
      {"fields", [](TensorTruth& t) { t.schema = testing::number_batch(0, 0).schema; }},
      {"the mark of several", [](TensorTruth& t) { t.schema = tensor_schema({.single = false, .count = 1}); }},
  };
  for (const auto& [what, lie] : lies) {
    const std::string result = elements_or_error(lie);
    EXPECT_THAT(result, HasSubstr("Error")) << what;
    std::vector<std::int32_t> memory(4);
    array::Tensor out;
    out.type = array::parse_element_type("int32");
    out.extents = array::Extents(1);
    out.extents.shape()[0] = 4;
    out.extents.strides()[0] = 4;
    out.data = memory.data();
    EXPECT_THAT(elements_or_error(lie, &out), HasSubstr("Error")) << what << ", into memory";
  }
}

/// Returns the error that tensors() has with a server that sends tensors of these paths.
std::string outcome_of_paths(const std::vector<std::string>& paths) {
  const FakeServer server([&](Connection& c) {
    TensorTruth truth;
    truth.begin(c);
    std::uint32_t number = 1;
    for (const std::string& path : paths) {
      truth.header.custom_metadata.clear();
      if (!path.empty()) truth.header.custom_metadata = {{"crossdock:path", path}};
      truth.message(c, number);
      truth.body(c, number++);
    }
    Truth::end(c, number);
  });
  try {
    Client client(server.uri());
    return std::to_string(client.tensors("it").size());
  } catch (const Error& error) {
    return std::string(error_name(error.code()));
  }
}

TEST(ForeignTensors, SeveralNeedPathsThatFitTogether) {
  EXPECT_EQ(outcome_of_paths({R"(["a"])", R"(["b"])"}), "2");
  EXPECT_EQ(outcome_of_paths({}), "0");
  EXPECT_EQ(outcome_of_paths({R"(["a"])", R"(["a"])"}), "InvalidDataError");
  EXPECT_EQ(outcome_of_paths({R"(["a"])", R"(["a", "b"])"}), "InvalidDataError");
  EXPECT_EQ(outcome_of_paths({"", ""}), "InvalidDataError");
  EXPECT_EQ(outcome_of_paths({""}), "InvalidArgumentError");
}

TEST(ForeignTensors, ABodyOfTheSameSizeForAnotherNumberIsNoData) {
  // It arrives first, and in the caller's memory: what counts is that the call fails.
  const FakeServer server([&](Connection& c) {
    TensorTruth truth;
    truth.by_value = true;
    truth.begin(c);
    truth.message(c);
    truth.body(c, 2);
    truth.message(c, 2);
    truth.body(c, 1);
    Truth::end(c, 3);
  });
  Client client(server.uri());
  std::vector<std::int32_t> memory(4);
  array::Tensor out;
  out.type = array::parse_element_type("int32");
  out.extents = array::Extents(1);
  out.extents.shape()[0] = 4;
  out.extents.strides()[0] = 4;
  out.data = memory.data();
  TensorOptions how;
  how.out = &out;
  EXPECT_THROW(client.tensor("it", how), InvalidArgumentError);
}

TEST(ForeignTensors, ATableUnmarkedIsFoundOutByItsFirstMessage) {
  const auto stream = [](Connection& c) {
    Truth truth;
    truth.announce(c);
    ipc::Encoder encoder;
    Truth::metadata(c, 0, encoder.schema(array::Schema(std::vector<array::Field>{})));
    truth.record_batch(c);
    truth.body(c);
    Truth::end(c, 2);
  };
  const FakeServer server(stream);
  Client client(server.uri());
  EXPECT_THROW(client.tensor("it"), InvalidArgumentError);
}

TEST(ForeignTensors, ATensorUnmarkedIsFoundOutByItsFirstMessage) {
  const FakeServer server([](Connection& c) {
    const TensorTruth truth;
    truth.begin(c);
    truth.message(c);
    truth.body(c);
    Truth::end(c, 2);
  });
  Client client(server.uri());
  const auto reader = client.get("it");
  EXPECT_THROW(reader->next(), InvalidArgumentError);
}

}  // namespace
}  // namespace crossdock::session
