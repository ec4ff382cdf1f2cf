// Tables from a server to a client.
#include <gmock/gmock.h>

#include "samples.h"

namespace crossdock::testing {
namespace {

using ::testing::ElementsAre;

TEST_F(CApi, ATableCrosses) {
  publish_numbers("numbers");
  EXPECT_THAT(get_numbers("numbers"), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(CApi, ABatchOutlivesEverything) {
  publish_numbers("numbers", 1);
  Released<ArrowArray> batch;
  {
    Reader reader;
    ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), nullptr, &reader, &error_)));
    ASSERT_TRUE(ok(crossdock_reader_next(reader, &batch, &error_)));
  }
  crossdock_client_release(&client_);
  crossdock_server_release(&server_);
  ASSERT_EQ(batch->length, 3);
  EXPECT_EQ(static_cast<const std::int64_t*>(batch->children[0]->buffers[1])[2], 2);
}

TEST_F(CApi, AReaderHasTheSchema) {
  publish_numbers("numbers");
  Reader reader;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), nullptr, &reader, &error_)));
  Released<ArrowSchema> schema;
  ASSERT_TRUE(ok(crossdock_reader_schema(reader, &schema, &error_)));
  ASSERT_EQ(schema->n_children, 2);
  EXPECT_STREQ(schema->children[0]->name, "number");
  EXPECT_STREQ(schema->children[1]->format, "u");
}

TEST_F(CApi, ColumnsAndRowsAreChosen) {
  publish_numbers("numbers", 4, 10);
  const crossdock_string columns[] = {crossdock_str("text"), crossdock_str("number")};
  crossdock_get_options options{};
  options.size = sizeof options;
  options.first_row = 18;
  options.n_rows = 3;
  EXPECT_THAT(get_numbers("numbers", &options), ElementsAre(18, 19, 20));
  options.first_row = 38;
  options.n_rows = 0;
  EXPECT_THAT(get_numbers("numbers", &options), ElementsAre(38, 39));
  options.n_rows = UINT64_MAX;
  EXPECT_THAT(get_numbers("numbers", &options), ElementsAre(38, 39));
  options.first_row = UINT64_MAX;
  EXPECT_THAT(get_numbers("numbers", &options), ElementsAre());

  options = {};
  options.size = sizeof options;
  options.columns = columns;
  options.n_columns = 2;
  Reader swapped;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), &options, &swapped, &error_)));
  Released<ArrowSchema> schema;
  ASSERT_TRUE(ok(crossdock_reader_schema(swapped, &schema, &error_)));
  EXPECT_STREQ(schema->children[0]->name, "text");

  options.n_columns = 0;
  Reader none;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), &options, &none, &error_)));
  Released<ArrowArray> batch;
  ASSERT_TRUE(ok(crossdock_reader_next(none, &batch, &error_)));
  EXPECT_EQ(batch->n_children, 0);
  EXPECT_EQ(batch->length, 10);
}

TEST_F(CApi, TheEndStaysTheEnd) {
  publish_numbers("numbers", 1);
  Reader reader;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), nullptr, &reader, &error_)));
  EXPECT_EQ(numbers_of(reader).size(), 3U);
  for (int i = 0; i < 2; ++i) {
    ArrowDeviceArray batch{};
    batch.array.release = [](ArrowArray*) { FAIL() << "what was there before is no array of the caller"; };
    EXPECT_TRUE(ok(crossdock_reader_next_device(reader, &batch, &error_)));
    EXPECT_EQ(batch.array.release, nullptr);
  }
}

TEST_F(CApi, AReaderBecomesAnArrowStream) {
  publish_numbers("numbers", 3, 2);
  Reader reader;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), nullptr, &reader, &error_)));
  Released<ArrowArray> first;
  ASSERT_TRUE(ok(crossdock_reader_next(reader, &first, &error_)));
  Released<ArrowArrayStream> stream;
  ASSERT_TRUE(ok(crossdock_reader_to_stream(&reader, &stream, &error_)));
  EXPECT_EQ(reader, nullptr);
  const auto rest = array::import_stream(&stream);
  ASSERT_EQ(number_at(*rest->next(), 0), 2);
  ASSERT_EQ(number_at(*rest->next(), 1), 5);
  EXPECT_FALSE(rest->next());
}

TEST_F(CApi, AReaderBecomesADeviceStream) {
  publish_numbers("numbers", 1, 2);
  Reader reader;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), nullptr, &reader, &error_)));
  Released<ArrowDeviceArrayStream> stream;
  ASSERT_TRUE(ok(crossdock_reader_to_device_stream(&reader, &stream, &error_)));
  EXPECT_EQ(stream->device_type, ARROW_DEVICE_CPU);
  const auto rest = array::import_device_stream(&stream);
  EXPECT_EQ(number_at(*rest->next(), 1), 1);
}

TEST_F(CApi, WritesAreCopiesOfPagesIfAskedFor) {
  publish_numbers("numbers", 1);
  crossdock_get_options options{};
  options.size = sizeof options;
  options.copy_on_write = 1;
  Reader reader;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), &options, &reader, &error_)));
  Released<ArrowArray> batch;
  ASSERT_TRUE(ok(crossdock_reader_next(reader, &batch, &error_)));
  const_cast<std::int64_t*>(static_cast<const std::int64_t*>(batch->children[0]->buffers[1]))[0] = 99;
  EXPECT_THAT(get_numbers("numbers"), ElementsAre(0, 1, 2));
}

TEST_F(CApi, VersionsTellWhetherATableChanged) {
  publish_numbers("numbers");
  Reader first;
  Reader second;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), nullptr, &first, &error_)));
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), nullptr, &second, &error_)));
  EXPECT_NE(crossdock_reader_version(first), -1);
  EXPECT_EQ(crossdock_reader_version(first), crossdock_reader_version(second));
}

TEST_F(CApi, TheCatalogListsWhatThereIs) {
  publish_numbers("numbers");
  Source weights;
  ASSERT_TRUE(ok(crossdock_source_tensor(FloatTensor(2, 3).managed(), &weights, &error_)));
  publish("weights", &weights);
  Catalog catalog;
  ASSERT_TRUE(ok(crossdock_client_list(client_, &catalog, &error_)));
  ASSERT_EQ(crossdock_catalog_size(catalog), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    crossdock_entry entry{};
    entry.size = sizeof entry;
    ASSERT_TRUE(ok(crossdock_catalog_entry(catalog, i, &entry, &error_)));
    Released<ArrowSchema> schema;
    if (std::string_view(entry.name.data, entry.name.size) == "numbers") {
      EXPECT_EQ(entry.kind, CROSSDOCK_KIND_TABLE);
      EXPECT_EQ(entry.rows, 6);
      EXPECT_GT(entry.bytes, 0);
      EXPECT_NE(entry.version, -1);
      ASSERT_TRUE(ok(crossdock_catalog_schema(catalog, i, &schema, &error_)));
      EXPECT_EQ(schema->n_children, 2);
    } else {
      EXPECT_EQ(entry.kind, CROSSDOCK_KIND_TENSOR);
      EXPECT_EQ(entry.rows, -1);
      EXPECT_TRUE(failed(crossdock_catalog_schema(catalog, i, &schema, &error_), CROSSDOCK_ERROR_UNSUPPORTED));
    }
  }
  crossdock_entry entry{};
  entry.size = sizeof entry;
  EXPECT_TRUE(failed(crossdock_catalog_entry(catalog, 2, &entry, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT, "2"));
}

TEST_F(CApi, AfterCloseCallsSayThatItIsClosed) {
  publish_numbers("numbers", 3, 1);
  Reader reader;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), nullptr, &reader, &error_)));
  ASSERT_TRUE(ok(crossdock_client_close(client_, &error_)));
  ASSERT_TRUE(ok(crossdock_client_close(client_, &error_)));
  Catalog catalog;
  EXPECT_TRUE(failed(crossdock_client_list(client_, &catalog, &error_), CROSSDOCK_ERROR_CLOSED));
  Reader another;
  EXPECT_TRUE(failed(crossdock_client_get(client_, crossdock_str("numbers"), nullptr, &another, &error_),
                     CROSSDOCK_ERROR_CLOSED));

  Released<ArrowArray> batch;
  ASSERT_TRUE(ok(crossdock_reader_next(reader, &batch, &error_))) << "readers go on";
  ASSERT_TRUE(ok(crossdock_reader_close(reader, &error_)));
  ASSERT_TRUE(ok(crossdock_reader_close(reader, &error_)));
  Released<ArrowArray> next;
  EXPECT_TRUE(failed(crossdock_reader_next(reader, &next, &error_), CROSSDOCK_ERROR_CLOSED));
  EXPECT_EQ(next->release, nullptr);

  ASSERT_TRUE(ok(crossdock_server_close(server_, &error_)));
  ASSERT_TRUE(ok(crossdock_server_close(server_, &error_)));
  EXPECT_NE(crossdock_server_uri(server_, 0), nullptr);
  Released<ArrowArrayStream> stream;
  array::export_stream(number_stream(1, 1), &stream);
  Source source;
  ASSERT_TRUE(ok(crossdock_source_table(&stream, &source, &error_)));
  EXPECT_TRUE(failed(crossdock_server_publish(server_, crossdock_str("late"), &source, nullptr, &error_),
                     CROSSDOCK_ERROR_CLOSED));
}

}  // namespace
}  // namespace crossdock::testing
