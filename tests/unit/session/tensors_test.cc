// Tensors, served and received, by every way and over the networks.
#include "crossdock/session/tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "crossdock/core/error.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/process.h"

namespace crossdock::session {
namespace {

using array::Tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns a tensor of int32 in C order, 0, 1, 2, ..., on the heap or in `memory`.
Tensor numbers(std::vector<std::int64_t> shape, std::byte* memory = nullptr) {
  Tensor tensor;
  tensor.type = array::parse_element_type("int32");
  tensor.extents = array::Extents(static_cast<std::int32_t>(shape.size()));
  std::ranges::copy(shape, tensor.extents.shape().begin());
  array::set_row_major(&tensor, "numbers");
  auto values = std::make_shared<std::vector<std::int32_t>>(static_cast<std::size_t>(tensor.size()));
  std::iota(values->begin(), values->end(), 0);
  if (memory != nullptr && !values->empty()) std::memcpy(memory, values->data(), values->size() * 4);
  tensor.data = memory != nullptr ? static_cast<void*>(memory) : values->data();
  if (memory == nullptr) tensor.owner = values;
  return tensor;
}

/// Returns a tensor's elements in C order.
std::vector<std::int32_t> values_of(const Tensor& tensor) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(tensor.size()));
  exchange::pack(tensor, values.data());
  return values;
}

class Tensors : public ::testing::TestWithParam<const char*> {
 protected:
  static ServerOptions options() {
    ServerOptions options;
    options.uris = {GetParam()};
    return options;
  }
  static bool by_value() { return GetParam() == std::string_view("tcp:"); }

  Server server_{options()};
  Client client_{server_.uri()};
};

TEST_P(Tensors, CrossesAndOutlivesBothEnds) {
  Tensor received;
  {
    Server server(options());
    server.publish("weights", Source::tensor(numbers({30, 40})));
    Client client(server.uri());
    received = client.tensor("weights");
  }
  EXPECT_EQ(values_of(received), values_of(numbers({30, 40})));
  EXPECT_EQ(element_type_name(received.type), "int32");
  EXPECT_THAT(std::vector(received.shape().begin(), received.shape().end()), ElementsAre(30, 40));
  EXPECT_TRUE(received.read_only);
  EXPECT_TRUE(received.ready());
}

TEST_P(Tensors, AreCopiedOnceForAnyNumberOfConsumers) {
  server_.publish("weights", Source::tensor(numbers({100})));
  for (int i = 0; i < 3; ++i) {
    std::uint64_t copied = 0;
    TensorOptions how;
    how.bytes_copied = &copied;
    EXPECT_EQ(values_of(client_.tensor("weights", how)), values_of(numbers({100})));
    EXPECT_EQ(copied, 0u);
  }
  const SourceStats stats = server_.stats().sources.at(0);
  EXPECT_EQ(stats.kind, "tensor");
  EXPECT_EQ(stats.rows, -1);
  EXPECT_EQ(stats.bytes, 400);
  EXPECT_EQ(stats.bytes_copied, 400u);
  EXPECT_EQ(stats.streams, 3u);
}

TEST_P(Tensors, AnArenasMemoryIsHandedOver) {
  const auto arena = Runtime::default_runtime()->make_arena();
  server_.publish("weights", Source::tensor(numbers({64}, arena->allocate(256))));
  EXPECT_EQ(values_of(client_.tensor("weights")), values_of(numbers({64})));
  EXPECT_EQ(server_.stats().sources.at(0).bytes_copied, 0u);
  EXPECT_THROW(arena->allocate(1), ArenaFrozenError);
}

TEST_P(Tensors, OfEveryLayout) {
  const Tensor matrix = numbers({4, 6});
  const std::vector<std::int32_t> axes{1, 0};
  const array::Slice every_second[] = {{.start = 0, .step = 1, .count = 4}, {.start = 0, .step = 2, .count = 3}};
  const array::Slice backwards[] = {{.start = 3, .step = -1, .count = 4}};
  Tensor repeated = numbers({4});
  repeated.extents = array::Extents(2);
  repeated.extents.shape()[0] = 1000;
  repeated.extents.shape()[1] = 4;
  repeated.extents.strides()[0] = 0;
  repeated.extents.strides()[1] = 4;
  const std::pair<Tensor, std::uint64_t> cases[] = {
      {numbers({}), 4},
      {numbers({0, 3}), 0},
      {numbers({1}), 4},
      {transpose(matrix, axes), 96},                    // as it lies
      {slice(matrix, every_second), 48},                // without the gaps
      {slice(matrix, backwards), 96},                   // in C order
      {repeated, 16},                                   // not repeated
      {numbers({1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3}), 24}  // of many dimensions
  };
  for (const auto& [tensor, copied] : cases) {
    server_.publish("it", Source::tensor(tensor), {.replace = true});
    EXPECT_EQ(server_.stats().sources.at(0).bytes_copied, copied) << array::shape_text(tensor.shape());
    const Tensor received = client_.tensor("it");
    EXPECT_TRUE(std::ranges::equal(received.shape(), tensor.shape()));
    EXPECT_EQ(values_of(received), values_of(tensor)) << array::shape_text(tensor.shape());
  }
  server_.publish("it", Source::tensor(transpose(matrix, axes)), {.replace = true});
  const Tensor as_it_lay = client_.tensor("it");
  EXPECT_THAT(std::vector(as_it_lay.strides().begin(), as_it_lay.strides().end()), ElementsAre(4, 24));
}

TEST_P(Tensors, SeveralComeBackByTheirPaths) {
  std::vector<NamedTensor> model;
  model.push_back({{"layer", "weight"}, numbers({3, 3})});
  model.push_back({{"layer", "bias"}, numbers({3})});
  model.push_back({{"odd \"key\"", ""}, numbers({})});
  server_.publish("model", Source::tensors(model));
  const std::vector<NamedTensor> received = client_.tensors("model");
  ASSERT_EQ(received.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(received[i].path, model[i].path);
    EXPECT_EQ(values_of(received[i].tensor), values_of(model[i].tensor));
  }
  EXPECT_EQ(server_.stats().sources.at(0).kind, "tensors");
}

std::string why(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "";
}

TEST_P(Tensors, AWrongCallSaysWhichIsRight) {
  server_.publish("table", Source::table(testing::number_stream(2, 10)));
  server_.publish("tensor", Source::tensor(numbers({2})));
  server_.publish("model", Source::tensors({{{"a"}, numbers({2})}}));
  EXPECT_THAT(why([&] { client_.get("tensor"); }), HasSubstr("a tensor: tensor() reads it"));
  EXPECT_THAT(why([&] { client_.get("model"); }), HasSubstr("several tensors: tensors() reads them"));
  EXPECT_THAT(why([&] { client_.tensor("table"); }), HasSubstr("get() reads it"));
  EXPECT_THAT(why([&] { client_.tensors("table"); }), HasSubstr("get() reads it"));
  EXPECT_THAT(why([&] { client_.tensor("model"); }), HasSubstr("tensors() reads them"));
  EXPECT_THAT(why([&] { client_.tensors("tensor"); }), HasSubstr("tensor() reads it"));
  EXPECT_EQ(client_.get("table")->next()->num_rows, 10) << "the client goes on";
}

TEST_P(Tensors, WrongSourcesAreRefused) {
  EXPECT_THROW(server_.publish("it", Source::tensors({})), InvalidArgumentError);
  EXPECT_THROW(server_.publish("it", Source::tensors({{{"a"}, numbers({1})}, {{}, numbers({1})}})),
               InvalidArgumentError);
  EXPECT_THROW(server_.publish("it", Source::tensors({{{"a"}, numbers({1})}, {{"a"}, numbers({1})}})),
               InvalidArgumentError);
  EXPECT_THROW(server_.publish("it", Source::tensors({{{"a"}, numbers({1})}, {{"a", "b"}, numbers({1})}})),
               InvalidArgumentError);
  Tensor masked = numbers({2});
  masked.mask = std::make_shared<const Tensor>(numbers({2}));
  EXPECT_THROW(server_.publish("it", Source::tensor(masked)), UnsupportedError);
  EXPECT_TRUE(server_.stats().sources.empty());
}

TEST_P(Tensors, IntoMemoryOfTheCallers) {
  for (const std::int64_t size : {7, 100'000}) {
    server_.publish("it", Source::tensor(numbers({size})), {.replace = true});
    std::vector<std::int32_t> memory(static_cast<std::size_t>(size));
    Tensor out = numbers({size}, reinterpret_cast<std::byte*>(memory.data()));
    std::ranges::fill(memory, -1);
    std::uint64_t copied = 0;
    TensorOptions how;
    how.out = &out;
    how.bytes_copied = &copied;
    const Tensor received = client_.tensor("it", how);
    EXPECT_EQ(received.data, memory.data());
    EXPECT_EQ(memory, values_of(numbers({size})));
    EXPECT_EQ(copied, by_value() ? 0u : static_cast<std::uint64_t>(size) * 4) << size;
  }
}

TEST_P(Tensors, IntoMemoryOfAnotherOrder) {
  server_.publish("it", Source::tensor(numbers({100, 200})));
  std::vector<std::int32_t> memory(100 * 200 * 4);
  Tensor out = numbers({200, 100}, reinterpret_cast<std::byte*>(memory.data()));
  const std::vector<std::int32_t> axes{1, 0};
  const Tensor in_f_order = transpose(out, axes);
  TensorOptions how;
  how.out = &in_f_order;
  EXPECT_EQ(values_of(client_.tensor("it", how)), values_of(numbers({100, 200})));

  Tensor wide = numbers({200, 400}, reinterpret_cast<std::byte*>(memory.data()));
  const array::Slice odd[] = {{.start = 198, .step = -2, .count = 100}, {.start = 1, .step = 2, .count = 200}};
  const Tensor with_gaps = slice(wide, odd);
  std::ranges::fill(memory, -1);
  how.out = &with_gaps;
  EXPECT_EQ(values_of(client_.tensor("it", how)), values_of(numbers({100, 200})));
  EXPECT_EQ(std::ranges::count(memory, -1), 200 * 400 - 100 * 200) << "nothing between the elements was written to";
}

TEST_P(Tensors, IntoWrongMemoryIsAnErrorBeforeAByteIsWritten) {
  server_.publish("it", Source::tensor(numbers({50'000})));
  std::vector<std::int32_t> memory(50'000, -1);
  Tensor out = numbers({50'000}, nullptr);
  const auto error_into = [&](auto change) {
    Tensor changed = out;
    changed.data = memory.data();
    changed.owner = nullptr;
    change(&changed);
    TensorOptions how;
    how.out = &changed;
    return why([&] { client_.tensor("it", how); });
  };
  EXPECT_THAT(error_into([](Tensor* t) { t->type = array::parse_element_type("float32"); }),
              HasSubstr("of type float32 and shape (50000,)"));
  EXPECT_THAT(error_into([](Tensor* t) { t->extents.shape()[0] = 49'999; }), HasSubstr("shape (49999,)"));
  EXPECT_THAT(error_into([](Tensor* t) { t->read_only = true; }), HasSubstr("read-only"));
  EXPECT_EQ(std::ranges::count(memory, -1), 50'000);
  TensorOptions both;
  both.out = &out;
  both.copy_on_write = true;
  EXPECT_THAT(why([&] { client_.tensor("it", both); }), HasSubstr("copy on write"));
}

TEST_P(Tensors, CopyOnWrite) {
  server_.publish("it", Source::tensor(numbers({5000})));
  TensorOptions how;
  how.copy_on_write = true;
  const Tensor mine = client_.tensor("it", how);
  EXPECT_FALSE(mine.read_only);
  static_cast<std::int32_t*>(mine.data)[7] = -7;
  EXPECT_EQ(values_of(client_.tensor("it")), values_of(numbers({5000}))) << "nobody else sees it";
  EXPECT_EQ(values_of(mine)[7], -7);
}

TEST_P(Tensors, ReceivedOnesArePassedOn) {
  server_.publish("it", Source::tensor(numbers({5000})));
  TensorOptions how;
  how.copy_on_write = true;
  server_.publish("again", Source::tensor(client_.tensor("it", how)));
  EXPECT_EQ(values_of(client_.tensor("again")), values_of(numbers({5000})));
  EXPECT_EQ(server_.stats().sources.at(0).bytes_copied, by_value() ? 20'000u : 0u);
}

TEST_P(Tensors, AreListed) {
  server_.publish("model", Source::tensors({{{"a"}, numbers({2})}, {{"b"}, numbers({3})}}));
  server_.publish("tensor", Source::tensor(numbers({2, 5})));
  const std::vector<CatalogEntry> entries = client_.list();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(tensor_content(*entries[0].schema)->count, 2);
  EXPECT_EQ(entries[0].rows, -1);
  EXPECT_EQ(entries[0].bytes, 20);
  EXPECT_THAT(tensor_content(*entries[1].schema)->shape, ElementsAre(2, 5));
  EXPECT_EQ(tensor_content(*entries[1].schema)->type, "int32");
}

TEST_P(Tensors, NamesAreAnyBytes) {
  const std::string name("\0\x01\xFF", 3);
  server_.publish(name, Source::tensor(numbers({2})));
  server_.publish(std::string("a\0b", 3), Source::table(testing::number_stream(1, 3)));
  server_.publish("\\x00\\x01\\xff", Source::tensor(numbers({3})));
  EXPECT_EQ(client_.tensor(name).size(), 2);
  EXPECT_EQ(client_.get(std::string("a\0b", 3))->next()->num_rows, 3);
  EXPECT_EQ(client_.tensor("\\x00\\x01\\xff").size(), 3);
  std::vector<std::string> names;
  for (const CatalogEntry& entry : client_.list()) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre(name, "\\x00\\x01\\xff", std::string("a\0b", 3)));
  server_.withdraw(name);
  try {
    client_.tensor(name);
    FAIL();
  } catch (const NotFoundError& error) {
    EXPECT_THAT(error.what(), HasSubstr("\\x00"));
  }
}

TEST_P(Tensors, ALimitEndsTheCall) {
  std::vector<NamedTensor> model;
  for (int i = 0; i < 10; ++i) model.push_back({{std::to_string(i)}, numbers({1})});
  server_.publish("model", Source::tensors(model));
  TensorOptions few;
  few.max_tensors = 9;
  EXPECT_THROW(client_.tensors("model", few), ResourceError);
  TensorOptions brief;
  brief.max_path_bytes = 49;
  EXPECT_THROW(client_.tensors("model", brief), ResourceError);
  TensorOptions enough;
  enough.max_tensors = 10;
  enough.max_path_bytes = 50;
  EXPECT_EQ(client_.tensors("model", enough).size(), 10u);
}

INSTANTIATE_TEST_SUITE_P(Over, Tensors, ::testing::Values("shm:", "tcp:"),
                         [](const auto& uri) { return std::string(uri.param).substr(0, 3); });

class TensorsOfAnotherProcess : public testing::NoLeftovers {};

int serve_tensor(const testing::ChildProcess::Line& line) {
  Server server;
  server.publish("it", Source::tensor(numbers({100'000})));
  line.say(server.uri());
  line.hear();
  return 0;
}

TEST_F(TensorsOfAnotherProcess, AreMapped) {
  testing::ChildProcess producer(serve_tensor);
  Client client(producer.line().hear());
  std::uint64_t copied = 0;
  TensorOptions how;
  how.bytes_copied = &copied;
  const Tensor received = client.tensor("it", how);
  const Tensor again = client.tensor("it");
  EXPECT_EQ(received.data, again.data) << "the region is mapped once";
  EXPECT_EQ(copied, 0u);
  producer.kill();
  EXPECT_EQ(values_of(received), values_of(numbers({100'000})));
}

}  // namespace
}  // namespace crossdock::session
