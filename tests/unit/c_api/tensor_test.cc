// Tensors, published and received as DLPack's structures.
#include <gmock/gmock.h>

#include <cstring>
#include <span>

#include "samples.h"

namespace crossdock::testing {
namespace {

using ::testing::ElementsAre;

struct Freed {
  ~Freed() {
    if (tensor != nullptr) tensor->deleter(tensor);
  }
  DLManagedTensorVersioned* tensor = nullptr;
};

std::vector<float> values_of(const DLManagedTensorVersioned& managed) {
  const DLTensor& tensor = managed.dl_tensor;
  const auto* const first =
      reinterpret_cast<const float*>(static_cast<const std::byte*>(tensor.data) + tensor.byte_offset);
  std::int64_t size = 1;
  for (const std::int64_t extent : std::span(tensor.shape, static_cast<std::size_t>(tensor.ndim))) size *= extent;
  return {first, first + size};
}

class CTensor : public CApi {
 protected:
  void publish_weights(std::int64_t rows = 2, std::int64_t columns = 3) {
    Source source;
    ASSERT_TRUE(ok(crossdock_source_tensor(FloatTensor(rows, columns, freed_).managed(), &source, &error_)));
    publish("weights", &source);
  }
  std::shared_ptr<std::atomic<int>> freed_ = std::make_shared<std::atomic<int>>(0);
};

TEST_F(CTensor, OneCrosses) {
  publish_weights();
  EXPECT_EQ(*freed_, 1) << "copied, and then freed";
  Freed got;
  ASSERT_TRUE(ok(crossdock_client_get_tensor(client_, crossdock_str("weights"), nullptr, &got.tensor, &error_)));
  crossdock_client_release(&client_);
  crossdock_server_release(&server_);
  EXPECT_EQ(got.tensor->version.major, 1U);
  EXPECT_EQ(got.tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY, DLPACK_FLAG_BITMASK_READ_ONLY);
  ASSERT_EQ(got.tensor->dl_tensor.ndim, 2);
  EXPECT_EQ(got.tensor->dl_tensor.shape[1], 3);
  EXPECT_THAT(values_of(*got.tensor), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(CTensor, OneMayBeWrittenToIfAskedFor) {
  publish_weights();
  crossdock_tensor_options options{};
  options.size = sizeof options;
  options.copy_on_write = 1;
  Freed got;
  ASSERT_TRUE(ok(crossdock_client_get_tensor(client_, crossdock_str("weights"), &options, &got.tensor, &error_)));
  EXPECT_EQ(got.tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY, 0U);
  *reinterpret_cast<float*>(static_cast<std::byte*>(got.tensor->dl_tensor.data) + got.tensor->dl_tensor.byte_offset) =
      9;
  EXPECT_THAT(values_of(*got.tensor), ElementsAre(9, 1, 2, 3, 4, 5));
}

TEST_F(CTensor, OneIsReceivedInTheCallersMemory) {
  publish_weights();
  const FloatTensor mine(2, 3);
  std::memset(mine.values(), 0, 6 * sizeof(float));
  ASSERT_TRUE(ok(crossdock_client_get_tensor_into(client_, crossdock_str("weights"), nullptr,
                                                  &mine.managed()->dl_tensor, &error_)));
  EXPECT_THAT(values_of(*mine.managed()), ElementsAre(0, 1, 2, 3, 4, 5));

  const FloatTensor other(3, 2);
  EXPECT_TRUE(failed(crossdock_client_get_tensor_into(client_, crossdock_str("weights"), nullptr,
                                                      &other.managed()->dl_tensor, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT));
  crossdock_tensor_options options{};
  options.size = sizeof options;
  options.device_type = ARROW_DEVICE_CUDA;
  EXPECT_TRUE(failed(crossdock_client_get_tensor_into(client_, crossdock_str("weights"), &options,
                                                      &mine.managed()->dl_tensor, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "device_type"));
  mine.managed()->deleter(mine.managed());
  other.managed()->deleter(other.managed());
}

TEST_F(CTensor, SeveralCrossWithTheirPaths) {
  const crossdock_string weight[] = {crossdock_str("layer"), crossdock_str("weight")};
  const crossdock_string bias[] = {crossdock_str("layer"), crossdock_str("bias")};
  const crossdock_named_tensor both[] = {
      {sizeof(crossdock_named_tensor), weight, 2, FloatTensor(1, 2, freed_).managed()},
      {sizeof(crossdock_named_tensor), bias, 2, FloatTensor(1, 1, freed_).managed()}};
  Source source;
  ASSERT_TRUE(ok(crossdock_source_tensors(both, 2, &source, &error_)));
  publish("model", &source);
  EXPECT_EQ(*freed_, 2);

  Tensors got;
  ASSERT_TRUE(ok(crossdock_client_get_tensors(client_, crossdock_str("model"), nullptr, &got, &error_)));
  ASSERT_EQ(crossdock_tensors_size(got), 2U);
  ASSERT_EQ(crossdock_tensors_n_keys(got, 0), 2U);
  const crossdock_string key = crossdock_tensors_key(got, 0, 1);
  EXPECT_EQ(std::string_view(key.data, key.size), "weight");
  EXPECT_EQ(crossdock_tensors_key(got, 0, 2).data, nullptr);
  EXPECT_EQ(crossdock_tensors_key(got, 2, 0).data, nullptr);
  EXPECT_EQ(crossdock_tensors_n_keys(got, 2), 0U);

  Freed taken;
  ASSERT_TRUE(ok(crossdock_tensors_take(got, 0, &taken.tensor, &error_)));
  EXPECT_THAT(values_of(*taken.tensor), ElementsAre(0, 1));
  DLManagedTensorVersioned* again = nullptr;
  EXPECT_TRUE(failed(crossdock_tensors_take(got, 0, &again, &error_), CROSSDOCK_ERROR_CONSUMED));
  EXPECT_TRUE(failed(crossdock_tensors_take(got, 2, &again, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT, "2"));
  EXPECT_EQ(again, nullptr);
}

TEST_F(CTensor, TheWrongCallSaysWhichIsRight) {
  publish_weights();
  publish_numbers("numbers");
  Tensors several;
  EXPECT_TRUE(failed(crossdock_client_get_tensors(client_, crossdock_str("weights"), nullptr, &several, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT));
  DLManagedTensorVersioned* one = nullptr;
  EXPECT_TRUE(failed(crossdock_client_get_tensor(client_, crossdock_str("numbers"), nullptr, &one, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT));
  Reader reader;
  EXPECT_TRUE(failed(crossdock_client_get(client_, crossdock_str("weights"), nullptr, &reader, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT));
}

TEST_F(CTensor, OnFailureTheCallerKeepsAllOfThem) {
  const crossdock_string key[] = {crossdock_str("a")};
  const FloatTensor good(1, 1, freed_);
  const FloatTensor other_version(1, 1, freed_);
  other_version.managed()->version.major = 2;
  const crossdock_named_tensor both[] = {{sizeof(crossdock_named_tensor), key, 1, good.managed()},
                                         {sizeof(crossdock_named_tensor), key, 1, other_version.managed()}};
  Source source;
  EXPECT_TRUE(failed(crossdock_source_tensors(both, 2, &source, &error_), CROSSDOCK_ERROR_UNSUPPORTED_TYPE, "2.3"));
  EXPECT_TRUE(failed(crossdock_source_tensor(other_version.managed(), &source, &error_),
                     CROSSDOCK_ERROR_UNSUPPORTED_TYPE, "2.3"));
  EXPECT_EQ(*freed_, 0);
  const crossdock_named_tensor missing[] = {{sizeof(crossdock_named_tensor), key, 1, good.managed()},
                                            {sizeof(crossdock_named_tensor), key, 1, nullptr}};
  EXPECT_TRUE(failed(crossdock_source_tensors(missing, 2, &source, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT));
  const crossdock_named_tensor twice[] = {{sizeof(crossdock_named_tensor), key, 1, good.managed()},
                                          {sizeof(crossdock_named_tensor), key, 1, good.managed()}};
  EXPECT_TRUE(failed(crossdock_source_tensors(twice, 2, &source, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT, "twice"));
  good.managed()->dl_tensor.shape[0] = -1;
  EXPECT_TRUE(failed(crossdock_source_tensor(good.managed(), &source, &error_), CROSSDOCK_ERROR_INVALID_DATA));
  EXPECT_EQ(*freed_, 0);
  good.managed()->deleter(good.managed());
  other_version.managed()->deleter(other_version.managed());
}

TEST_F(CTensor, ALaterVersionsArrayIsReadByItsSize) {
  struct Later {
    crossdock_named_tensor known;
    std::uint64_t unknown;
  };
  const crossdock_string keys[] = {crossdock_str("a"), crossdock_str("b")};
  const FloatTensor a(1, 1, freed_);
  const FloatTensor b(1, 2, freed_);
  Later both[] = {{{sizeof(Later), &keys[0], 1, a.managed()}, 0}, {{sizeof(Later), &keys[1], 1, b.managed()}, 0}};
  Source source;
  both[1].unknown = 1;
  EXPECT_TRUE(failed(crossdock_source_tensors(&both[0].known, 2, &source, &error_), CROSSDOCK_ERROR_UNSUPPORTED,
                     "crossdock_named_tensor has a member set"));
  both[1].unknown = 0;
  both[1].known.size = sizeof(crossdock_named_tensor);
  EXPECT_TRUE(failed(crossdock_source_tensors(&both[0].known, 2, &source, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT,
                     "tensors: element 1 has another size"));
  both[0].known.size = 0;
  EXPECT_TRUE(failed(crossdock_source_tensors(&both[0].known, 2, &source, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT,
                     "sizeof(crossdock_named_tensor)"));
  EXPECT_EQ(*freed_, 0);
  both[0].known.size = both[1].known.size = sizeof(Later);
  ASSERT_TRUE(ok(crossdock_source_tensors(&both[0].known, 2, &source, &error_)));
  publish("later", &source);
  EXPECT_EQ(*freed_, 2);
  Tensors got;
  ASSERT_TRUE(ok(crossdock_client_get_tensors(client_, crossdock_str("later"), nullptr, &got, &error_)));
  EXPECT_EQ(crossdock_tensors_size(got), 2U);
}

TEST_F(CTensor, PathsAreCheckedWhenTheyArePublished) {
  const crossdock_string wrong[] = {{"\xff", 1}};
  const crossdock_named_tensor one[] = {
      {sizeof(crossdock_named_tensor), wrong, 1, FloatTensor(1, 1, freed_).managed()}};
  Source source;
  ASSERT_TRUE(ok(crossdock_source_tensors(one, 1, &source, &error_)));
  EXPECT_TRUE(failed(crossdock_server_publish(server_, crossdock_str("model"), &source, nullptr, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "UTF-8"));
  EXPECT_EQ(*freed_, 1);
}

}  // namespace
}  // namespace crossdock::testing
