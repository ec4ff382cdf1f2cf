// Callers that get it wrong: nothing for handles, lengths that can't be, the child of a fork.
#include <functional>

#include "samples.h"
#include "support/process.h"

namespace crossdock::testing {
namespace {

/// Calls every function that returns a status with its first argument null, and those behind it valid.
TEST_F(CApi, EveryFunctionRefusesANullHandle) {
  Source source;
  Reader reader;
  Catalog catalog;
  Tensors tensors;
  crossdock_entry entry{};
  entry.size = sizeof entry;
  Released<ArrowSchema> schema;
  Released<ArrowArray> batch;
  ArrowDeviceArray on_device{};
  Released<ArrowArrayStream> stream;
  Released<ArrowDeviceArrayStream> device_stream;
  DLManagedTensorVersioned* tensor = nullptr;
  const FloatTensor into(1, 1);
  std::int32_t number = 0;
  crossdock_error** const error = &error_;
  const crossdock_string name = crossdock_str("name");
  const std::function<crossdock_status()> calls[] = {
      [&] { return crossdock_stop_new(nullptr, error); },
      [&] { return crossdock_serve(nullptr, nullptr, error); },
      [&] { return crossdock_connect(name, nullptr, nullptr, error); },
      [&] { return crossdock_queue_find(crossdock_str("host"), {}, nullptr, error); },
      [&] { return crossdock_source_table(nullptr, &source, error); },
      [&] { return crossdock_source_device_table(nullptr, &source, error); },
      [&] { return crossdock_source_live(nullptr, &source, error); },
      [&] { return crossdock_source_device_live(nullptr, &source, error); },
      [&] { return crossdock_source_batches(nullptr, &batch, 1, &source, error); },
      [&] { return crossdock_source_factory(nullptr, nullptr, nullptr, &source, error); },
      [&] { return crossdock_source_file(name, 0, nullptr, error); },
      [&] { return crossdock_source_tensor(nullptr, &source, error); },
      [&] { return crossdock_source_tensors(nullptr, 1, &source, error); },
      [&] { return crossdock_server_publish(nullptr, name, &source, nullptr, error); },
      [&] { return crossdock_server_publish(server_, name, nullptr, nullptr, error); },
      [&] { return crossdock_server_publish(server_, name, &source, nullptr, error); },
      [&] { return crossdock_server_update(nullptr, nullptr, 0, nullptr, 0, nullptr, error); },
      [&] { return crossdock_server_update(server_, nullptr, 1, nullptr, 0, nullptr, error); },
      [&] { return crossdock_server_update(server_, nullptr, 0, nullptr, 1, nullptr, error); },
      [&] { return crossdock_server_withdraw(nullptr, name, error); },
      [&] { return crossdock_server_drain(nullptr, 0, &number, error); },
      [&] { return crossdock_server_close(nullptr, error); },
      [&] { return crossdock_client_close(nullptr, error); },
      [&] { return crossdock_client_list(nullptr, &catalog, error); },
      [&] { return crossdock_client_list(client_, nullptr, error); },
      [&] { return crossdock_catalog_entry(nullptr, 0, &entry, error); },
      [&] { return crossdock_catalog_schema(nullptr, 0, &schema, error); },
      [&] { return crossdock_client_get(nullptr, name, nullptr, &reader, error); },
      [&] { return crossdock_client_get(client_, name, nullptr, nullptr, error); },
      [&] { return crossdock_reader_schema(nullptr, &schema, error); },
      [&] { return crossdock_reader_next(nullptr, &batch, error); },
      [&] { return crossdock_reader_next_device(nullptr, &on_device, error); },
      [&] { return crossdock_reader_try_next(nullptr, &on_device, &number, error); },
      [&] { return crossdock_reader_prepare_sleep(nullptr, &number, error); },
      [&] { return crossdock_reader_awake(nullptr, error); },
      [&] { return crossdock_reader_to_stream(nullptr, &stream, error); },
      [&] { return crossdock_reader_to_stream(&reader, &stream, error); },
      [&] { return crossdock_reader_to_device_stream(&reader, &device_stream, error); },
      [&] { return crossdock_reader_close(nullptr, error); },
      [&] { return crossdock_client_get_tensor(nullptr, name, nullptr, &tensor, error); },
      [&] { return crossdock_client_get_tensor(client_, name, nullptr, nullptr, error); },
      [&] { return crossdock_client_get_tensor_into(nullptr, name, nullptr, &into.managed()->dl_tensor, error); },
      [&] { return crossdock_client_get_tensor_into(client_, name, nullptr, nullptr, error); },
      [&] { return crossdock_client_get_tensors(nullptr, name, nullptr, &tensors, error); },
      [&] { return crossdock_client_get_tensors(client_, name, nullptr, nullptr, error); },
      [&] { return crossdock_tensors_take(nullptr, 0, &tensor, error); },
  };
  int number_of_call = 0;
  for (const auto& call : calls) {
    EXPECT_TRUE(failed(call(), CROSSDOCK_ERROR_INVALID_ARGUMENT, "is NULL")) << "call " << number_of_call;
    ++number_of_call;
  }
  into.managed()->deleter(into.managed());
  EXPECT_EQ(crossdock_server_n_uris(nullptr), 0U);
  EXPECT_EQ(crossdock_server_uri(nullptr, 0), nullptr);
  EXPECT_EQ(crossdock_catalog_size(nullptr), 0U);
  EXPECT_EQ(crossdock_reader_descriptor(nullptr), -1);
  EXPECT_EQ(crossdock_reader_version(nullptr), -1);
  EXPECT_EQ(crossdock_tensors_size(nullptr), 0U);
}

TEST_F(CApi, ASecondReleaseDoesNothing) {
  publish_numbers("numbers");
  crossdock_reader* reader = nullptr;
  crossdock_catalog* catalog = nullptr;
  crossdock_queue* queue = nullptr;
  crossdock_tensors* tensors = nullptr;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), nullptr, &reader, &error_)));
  ASSERT_TRUE(ok(crossdock_client_list(client_, &catalog, &error_)));
  ASSERT_TRUE(ok(crossdock_queue_find(crossdock_str("host"), {}, &queue, &error_)));
  for (int i = 0; i < 2; ++i) {
    crossdock_reader_release(&reader);
    crossdock_catalog_release(&catalog);
    crossdock_queue_release(&queue);
    crossdock_tensors_release(&tensors);
    crossdock_client_release(&client_);
    crossdock_server_release(&server_);
    crossdock_error_release(&error_);
  }
  EXPECT_EQ(reader, nullptr);
  EXPECT_EQ(client_, nullptr);
  EXPECT_EQ(server_, nullptr);
  crossdock_reader_release(nullptr);
  crossdock_catalog_release(nullptr);
  crossdock_queue_release(nullptr);
  crossdock_tensors_release(nullptr);
  crossdock_client_release(nullptr);
  crossdock_server_release(nullptr);
}

TEST_F(CApi, LengthsThatCantBeAreRefusedUnread) {
  const char text[] = "x";
  Reader reader;
  EXPECT_TRUE(failed(crossdock_client_get(client_, {text, SIZE_MAX}, nullptr, &reader, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "name has 18446744073709551615 bytes; the limit is 1048576"));
  EXPECT_TRUE(failed(crossdock_client_get(client_, {nullptr, 1}, nullptr, &reader, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "data is NULL"));
  EXPECT_TRUE(failed(crossdock_server_withdraw(server_, {text, (std::size_t{1} << 20) + 1}, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "limit"));
  Client client;
  EXPECT_TRUE(failed(crossdock_connect({text, SIZE_MAX / 2}, nullptr, &client, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "uri has"));

  const crossdock_string column = crossdock_str("number");
  crossdock_get_options options{};
  options.size = sizeof options;
  options.columns = &column;
  options.n_columns = SIZE_MAX;
  EXPECT_TRUE(failed(crossdock_client_get(client_, crossdock_str("x"), &options, &reader, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "columns has 18446744073709551615 elements"));
  Source source;
  const crossdock_named_tensor tensor{sizeof tensor, &column, SIZE_MAX, nullptr};
  EXPECT_TRUE(failed(crossdock_source_tensors(&tensor, SIZE_MAX, &source, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT,
                     "elements"));
  EXPECT_TRUE(failed(crossdock_server_update(server_, nullptr, SIZE_MAX, nullptr, 0, nullptr, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "elements"));
  Released<ArrowSchema> schema;
  array::export_schema(*number_batch(0, 0).schema, &schema);
  Released<ArrowArray> batch;
  EXPECT_TRUE(failed(crossdock_source_batches(&schema, &batch, SIZE_MAX, &source, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "elements"));
}

TEST_F(CApi, TextsThatAreNoTextAreErrorsNotCrashes) {
  Reader reader;
  EXPECT_TRUE(
      failed(crossdock_client_get(client_, {"\xff\xfe\x80", 3}, nullptr, &reader, &error_), CROSSDOCK_ERROR_NOT_FOUND));
  EXPECT_TRUE(failed(crossdock_client_get(client_, {nullptr, 0}, nullptr, &reader, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "can't be empty"));
  Client client;
  EXPECT_TRUE(failed(crossdock_connect({"\xff:\xfe", 3}, nullptr, &client, &error_), CROSSDOCK_ERROR_URI));
  EXPECT_TRUE(failed(crossdock_connect({"shm:a\0b", 7}, nullptr, &client, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT,
                     "uri has a NUL byte"));
  EXPECT_TRUE(failed(crossdock_connect({nullptr, 0}, nullptr, &client, &error_), CROSSDOCK_ERROR_URI));
  EXPECT_TRUE(failed(crossdock_connect(crossdock_str("shm:nobody-is-here"), nullptr, &client, &error_),
                     CROSSDOCK_ERROR_CONNECTION));

  publish_numbers("numbers");
  const crossdock_string column = {"\xff", 1};
  crossdock_get_options options{};
  options.size = sizeof options;
  options.columns = &column;
  options.n_columns = 1;
  EXPECT_TRUE(failed(crossdock_client_get(client_, crossdock_str("numbers"), &options, &reader, &error_),
                     CROSSDOCK_ERROR_NOT_FOUND, "number"));
  Source source;
  Released<ArrowArrayStream> stream;
  array::export_stream(number_stream(1, 1), &stream);
  ASSERT_TRUE(ok(crossdock_source_table(&stream, &source, &error_)));
  EXPECT_TRUE(failed(crossdock_server_publish(server_, {nullptr, 0}, &source, nullptr, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "name"));
}

TEST_F(CApi, CallsAfterACloseSaySo) {
  publish_numbers("numbers");
  Reader reader;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), nullptr, &reader, &error_)));
  Released<ArrowArrayStream> stream;
  array::export_stream(number_stream(1, 1), &stream);
  Source source;
  ASSERT_TRUE(ok(crossdock_source_table(&stream, &source, &error_)));

  const crossdock_string name = crossdock_str("numbers");
  Catalog catalog;
  Reader other;
  Tensors tensors;
  Released<ArrowArray> batch;
  ArrowDeviceArray on_device{};
  DLManagedTensorVersioned* tensor = nullptr;
  std::int32_t number = 7;
  const FloatTensor into(1, 1);
  const std::function<crossdock_status()> calls[] = {
      [&] { return crossdock_reader_next(reader, &batch, &error_); },
      [&] { return crossdock_reader_next_device(reader, &on_device, &error_); },
      [&] { return crossdock_reader_try_next(reader, &on_device, &number, &error_); },
      [&] { return crossdock_client_list(client_, &catalog, &error_); },
      [&] { return crossdock_client_get(client_, name, nullptr, &other, &error_); },
      [&] { return crossdock_client_get_tensor(client_, name, nullptr, &tensor, &error_); },
      [&] { return crossdock_client_get_tensors(client_, name, nullptr, &tensors, &error_); },
      [&] { return crossdock_client_get_tensor_into(client_, name, nullptr, &into.managed()->dl_tensor, &error_); },
      [&] { return crossdock_server_withdraw(server_, name, &error_); },
      [&] { return crossdock_server_withdraw(server_, crossdock_str("never there"), &error_); },
      [&] { return crossdock_server_update(server_, nullptr, 0, &name, 1, nullptr, &error_); },
      [&] { return crossdock_server_update(server_, nullptr, 0, nullptr, 0, nullptr, &error_); },
      [&] { return crossdock_server_publish(server_, name, &source, nullptr, &error_); },
      [&] { return crossdock_server_drain(server_, 0, &number, &error_); },
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(ok(crossdock_reader_close(reader, &error_)));
    EXPECT_TRUE(ok(crossdock_client_close(client_, &error_)));
    EXPECT_TRUE(ok(crossdock_server_close(server_, &error_)));
  }
  int number_of_call = 0;
  for (const auto& call : calls) {
    EXPECT_TRUE(failed(call(), CROSSDOCK_ERROR_CLOSED)) << "call " << number_of_call;
    ++number_of_call;
  }
  // What a reader knows without its server isn't refused.
  EXPECT_TRUE(ok(crossdock_reader_prepare_sleep(reader, &number, &error_)));
  EXPECT_EQ(number, 0);
  EXPECT_TRUE(ok(crossdock_reader_awake(reader, &error_)));
  EXPECT_EQ(crossdock_reader_descriptor(reader), -1);
  into.managed()->deleter(into.managed());
}

TEST_F(CApi, AForkedChildMayOnlyRelease) {
  publish_numbers("numbers");
  Reader reader;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), nullptr, &reader, &error_)));
  const auto in_child = [this, &reader](const ChildProcess::Line&) {
    crossdock_catalog* catalog = nullptr;
    Released<ArrowArray> batch;
    std::int32_t number = 0;
    if (crossdock_reader_next(reader, &batch, &error_) != CROSSDOCK_ERROR_FORK) return 4;
    if (crossdock_reader_prepare_sleep(reader, &number, &error_) != CROSSDOCK_ERROR_FORK) return 5;
    if (crossdock_reader_awake(reader, &error_) != CROSSDOCK_ERROR_FORK) return 6;
    if (crossdock_reader_close(reader, &error_) != CROSSDOCK_ERROR_FORK) return 7;
    if (crossdock_client_close(client_, &error_) != CROSSDOCK_ERROR_FORK) return 8;
    if (crossdock_server_drain(server_, 0, &number, &error_) != CROSSDOCK_ERROR_FORK) return 9;
    crossdock_reader_release(&reader);
    if (crossdock_client_list(client_, &catalog, &error_) != CROSSDOCK_ERROR_FORK) return 1;
    if (crossdock_server_withdraw(server_, crossdock_str("numbers"), &error_) != CROSSDOCK_ERROR_FORK) return 2;
    if (crossdock_server_close(server_, &error_) != CROSSDOCK_ERROR_FORK) return 3;
    crossdock_client_release(&client_);
    crossdock_server_release(&server_);
    return 0;
  };
  ChildProcess child(in_child);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(numbers_of(reader).size(), 6U) << "the parent's reader goes on";
  EXPECT_EQ(get_numbers("numbers").size(), 6U) << "the parent's server goes on";
}

}  // namespace
}  // namespace crossdock::testing
