#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"
#include "crossdock/array/stream.h"
#include "crossdock/crossdock.h"
#include "support/batches.h"
#include "support/leftovers.h"

/// Handles, data and checks for tests of the C interface.
namespace crossdock::testing {

/// A handle that is released at the end of its scope.
template <class T, void (*Release)(T**)>
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { Release(&handle_); }
  T** operator&() { return &handle_; }     // NOLINT(google-runtime-operator): as of a T*
  operator T*() const { return handle_; }  // NOLINT(google-explicit-constructor): likewise

 private:
  T* handle_ = nullptr;
};
using Server = Owned<crossdock_server, crossdock_server_release>;
using Client = Owned<crossdock_client, crossdock_client_release>;
using Reader = Owned<crossdock_reader, crossdock_reader_release>;
using Source = Owned<crossdock_source, crossdock_source_release>;
using Catalog = Owned<crossdock_catalog, crossdock_catalog_release>;
using Tensors = Owned<crossdock_tensors, crossdock_tensors_release>;
using Queue = Owned<crossdock_queue, crossdock_queue_release>;
using Stop = Owned<crossdock_stop, crossdock_stop_release>;

/// A C structure with a release callback, released at the end of its scope if nobody took it.
template <class T>
class Released {
 public:
  Released() = default;
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() { reset(); }
  void reset() {
    if (value_.release != nullptr) value_.release(&value_);
  }
  T* operator&() { return &value_; }  // NOLINT(google-runtime-operator): as of a T
  T* operator->() { return &value_; }

 private:
  T value_{};
};

inline void release_of(ArrowDeviceArray* array) {
  if (array->array.release != nullptr) array->array.release(&array->array);
}

/// Fixture: has an error, a server and a client of it.
class CApi : public NoLeftovers {
 protected:
  void SetUp() override {
    NoLeftovers::SetUp();
    ASSERT_TRUE(ok(crossdock_serve(nullptr, &server_, &error_)));
    ASSERT_TRUE(ok(crossdock_connect(crossdock_str(crossdock_server_uri(server_, 0)), nullptr, &client_, &error_)));
  }
  void TearDown() override {
    crossdock_client_release(&client_);
    crossdock_server_release(&server_);
    crossdock_error_release(&error_);
    NoLeftovers::TearDown();
  }

  ::testing::AssertionResult ok(crossdock_status status) const {
    if (status == CROSSDOCK_OK) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << crossdock_error_call(error_) << ": " << crossdock_status_name(status)
                                         << ": " << crossdock_error_message(error_);
  }
  /// Whether a call failed with this status, and a text that has `part` in it.
  ::testing::AssertionResult failed(crossdock_status status, crossdock_status expected,
                                    std::string_view part = {}) const {
    const std::string_view text = crossdock_error_message(error_);
    if (status == expected && status == crossdock_error_status(error_) && text.find(part) != text.npos) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << crossdock_status_name(status) << ": " << text;
  }

  void publish(const char* name, crossdock_source** source, const crossdock_publish_options* options = nullptr) {
    ASSERT_TRUE(ok(crossdock_server_publish(server_, crossdock_str(name), source, options, &error_)));
    ASSERT_EQ(*source, nullptr);
  }
  /// Publishes `batches` batches of `rows` consecutive numbers, from 0.
  void publish_numbers(const char* name, int batches = 2, std::int64_t rows = 3) {
    Released<ArrowArrayStream> stream;
    array::export_stream(number_stream(batches, rows), &stream);
    Source source;
    ASSERT_TRUE(ok(crossdock_source_table(&stream, &source, &error_)));
    publish(name, &source);
  }

  /// Reads the rest of a reader: the numbers of its first column.
  std::vector<std::int64_t> numbers_of(crossdock_reader* reader) {
    std::vector<std::int64_t> numbers;
    for (;;) {
      Released<ArrowArray> batch;
      EXPECT_TRUE(ok(crossdock_reader_next(reader, &batch, &error_)));
      if (batch->release == nullptr) return numbers;
      const ArrowArray& column = *batch->children[0];
      const auto* const values = static_cast<const std::int64_t*>(column.buffers[1]) + column.offset;
      numbers.insert(numbers.end(), values + batch->offset, values + batch->offset + batch->length);
    }
  }
  std::vector<std::int64_t> get_numbers(const char* name, const crossdock_get_options* options = nullptr) {
    Reader reader;
    EXPECT_TRUE(ok(crossdock_client_get(client_, crossdock_str(name), options, &reader, &error_)));
    return reader != nullptr ? numbers_of(reader) : std::vector<std::int64_t>();
  }

  crossdock_error* error_ = nullptr;
  crossdock_server* server_ = nullptr;
  crossdock_client* client_ = nullptr;
};

/// A DLPack tensor of float32 on the heap, of the shape (rows, columns): 0, 1, 2, ... `released` counts the calls of
/// the deleter.
class FloatTensor {
 public:
  FloatTensor(std::int64_t rows, std::int64_t columns, std::shared_ptr<std::atomic<int>> released = nullptr)
      : parts_(new Parts{std::vector<float>(static_cast<std::size_t>(rows * columns)),
                         {rows, columns},
                         {columns, 1},
                         std::move(released),
                         {}}) {
    for (std::size_t i = 0; i < parts_->values.size(); ++i) parts_->values[i] = static_cast<float>(i);
    DLManagedTensorVersioned& managed = parts_->managed;
    managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    managed.manager_ctx = parts_;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      auto* const parts = static_cast<Parts*>(self->manager_ctx);
      if (parts->released != nullptr) ++*parts->released;
      delete parts;
    };
    managed.dl_tensor.data = parts_->values.data();
    managed.dl_tensor.device = {kDLCPU, 0};
    managed.dl_tensor.ndim = 2;
    managed.dl_tensor.dtype = {kDLFloat, 32, 1};
    managed.dl_tensor.shape = parts_->shape;
    managed.dl_tensor.strides = parts_->strides;
  }
  DLManagedTensorVersioned* managed() const { return &parts_->managed; }  ///< The caller calls its deleter.
  float* values() const { return parts_->values.data(); }

 private:
  struct Parts {
    std::vector<float> values;
    std::int64_t shape[2];
    std::int64_t strides[2];
    std::shared_ptr<std::atomic<int>> released;
    DLManagedTensorVersioned managed;
  };
  Parts* parts_;
};

}  // namespace crossdock::testing
