// What sources take over, and when they free it.
#include <gmock/gmock.h>

#include <cerrno>

#include "crossdock/session/file.h"
#include "samples.h"
#include "support/temporary_folder.h"

namespace crossdock::testing {
namespace {

using ::testing::ElementsAre;

/// A batch in C form: what the library takes over, and counts when it frees it.
struct CountedBatch {
  explicit CountedBatch(std::int64_t first, std::shared_ptr<std::atomic<int>> freed) {
    array::RecordBatch batch = number_batch(first, 2);
    array::export_schema(*batch.schema, &schema);
    batch.owner = std::shared_ptr<void>(nullptr, [freed, owner = batch.owner](void*) { ++*freed; });
    ArrowDeviceArray exported{};
    array::export_batch(std::move(batch), &exported);
    *&array = exported.array;
  }
  Released<ArrowSchema> schema;
  Released<ArrowArray> array;
};

class CSource : public CApi {
 protected:
  std::shared_ptr<std::atomic<int>> freed_ = std::make_shared<std::atomic<int>>(0);
};

TEST_F(CSource, BatchesAreATable) {
  CountedBatch one(0, freed_);
  CountedBatch two(10, freed_);
  ArrowArray both[] = {*&one.array, *&two.array};
  one.array->release = nullptr;
  two.array->release = nullptr;
  Source source;
  ASSERT_TRUE(ok(crossdock_source_batches(&one.schema, both, 2, &source, &error_)));
  EXPECT_EQ(both[0].release, nullptr);
  EXPECT_EQ(both[1].release, nullptr);
  EXPECT_EQ(*freed_, 0);
  publish("t", &source);
  EXPECT_EQ(*freed_, 2) << "copied, and then freed";
  EXPECT_THAT(get_numbers("t"), ElementsAre(0, 1, 10, 11));
}

TEST_F(CSource, NoBatchesAreATableWithoutRows) {
  CountedBatch one(0, freed_);
  Source source;
  ASSERT_TRUE(ok(crossdock_source_batches(&one.schema, nullptr, 0, &source, &error_)));
  publish("t", &source);
  EXPECT_THAT(get_numbers("t"), ElementsAre());
}

TEST_F(CSource, OnFailureTheCallerKeepsWhatItGave) {
  CountedBatch one(0, freed_);
  ArrowArray both[] = {*&one.array, {}};
  Source source;
  EXPECT_TRUE(failed(crossdock_source_batches(&one.schema, both, 2, &source, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT,
                     "batch 1 was released"));
  EXPECT_NE(both[0].release, nullptr);
  EXPECT_EQ(source, nullptr);
  one.schema.reset();
  EXPECT_TRUE(failed(crossdock_source_batches(&one.schema, both, 1, &source, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT,
                     "schema was released"));

  Released<ArrowArrayStream> stream;
  array::export_stream(number_stream(1, 1), &stream);
  EXPECT_TRUE(failed(crossdock_source_table(&stream, nullptr, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT));
  EXPECT_NE(stream->release, nullptr);
}

TEST_F(CSource, AWrongArrayIsFoundWhenItIsPublished) {
  CountedBatch one(0, freed_);
  one.array->children[0]->length = 1;
  Source source;
  ASSERT_TRUE(ok(crossdock_source_batches(&one.schema, &one.array, 1, &source, &error_)));
  EXPECT_TRUE(failed(crossdock_server_publish(server_, crossdock_str("t"), &source, nullptr, &error_),
                     CROSSDOCK_ERROR_INVALID_DATA, "number"));
  EXPECT_EQ(*freed_, 1);
}

TEST_F(CSource, ReleasingOneThatWasNotPublishedFreesWhatItTook) {
  CountedBatch one(0, freed_);
  crossdock_source* source = nullptr;
  ASSERT_TRUE(ok(crossdock_source_batches(&one.schema, &one.array, 1, &source, &error_)));
  crossdock_source_release(&source);
  EXPECT_EQ(source, nullptr);
  EXPECT_EQ(*freed_, 1);
  crossdock_source_release(&source);
  crossdock_source_release(nullptr);
  EXPECT_EQ(*freed_, 1);
}

TEST_F(CSource, AStreamThatFailsSaysWhy) {
  ArrowArrayStream broken{};
  broken.get_schema = [](ArrowArrayStream*, ArrowSchema*) { return EINVAL; };
  broken.get_next = [](ArrowArrayStream*, ArrowArray*) { return EINVAL; };
  broken.get_last_error = [](ArrowArrayStream*) -> const char* { return "no schema today"; };
  broken.release = [](ArrowArrayStream* self) { self->release = nullptr; };
  Source source;
  EXPECT_TRUE(
      failed(crossdock_source_table(&broken, &source, &error_), CROSSDOCK_ERROR_INVALID_DATA, "no schema today"));
  EXPECT_EQ(crossdock_error_errno(error_), EINVAL);
  EXPECT_NE(broken.release, nullptr) << "the caller still owns it";
  broken.release(&broken);
  EXPECT_TRUE(failed(crossdock_source_live(&broken, &source, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT, "released"));
}

TEST_F(CSource, AFileIsServed) {
  const TemporaryFolder folder;
  const std::string path = folder / "numbers.arrow";
  session::write_file(*number_stream(2, 2), path);
  for (const std::int32_t stability : {CROSSDOCK_FILE_TRUST, CROSSDOCK_FILE_SNAPSHOT}) {
    Source source;
    ASSERT_TRUE(ok(crossdock_source_file(crossdock_str(path.c_str()), stability, &source, &error_)));
    const std::string name = std::to_string(stability);
    publish(name.c_str(), &source);
    EXPECT_THAT(get_numbers(name.c_str()), ElementsAre(0, 1, 2, 3));
  }
  Source source;
  EXPECT_TRUE(failed(crossdock_source_file(crossdock_str(path.c_str()), 2, &source, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "stability is 2"));
  EXPECT_TRUE(failed(crossdock_source_file({path.c_str(), path.size() + 1}, 0, &source, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "NUL"));
}

TEST_F(CSource, ADeviceStreamIsATable) {
  Released<ArrowDeviceArrayStream> stream;
  array::export_device_stream(number_stream(1, 2), &stream);
  Source source;
  ASSERT_TRUE(ok(crossdock_source_device_table(&stream, &source, &error_)));
  publish("t", &source);
  EXPECT_THAT(get_numbers("t"), ElementsAre(0, 1));
}

}  // namespace
}  // namespace crossdock::testing
