#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "crossdock/array/record_batch.h"

namespace crossdock::array::test {

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes bytes_of(std::initializer_list<T> values) {
  Bytes out(values.size() * sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), std::data(values), out.size());
  return out;
}
inline Bytes text_bytes(const std::string& text) {
  Bytes out(text.size());
  if (!text.empty()) std::memcpy(out.data(), text.data(), text.size());
  return out;
}

/// What a producer exports, built by hand: each array owns exact-size copies of its buffers (so that a sanitizer sees
/// every byte too far) and its children, and counts its release.
struct Parts {
  std::int64_t length = 0;
  std::int64_t null_count = 0;
  std::int64_t offset = 0;
  std::vector<std::optional<Bytes>> buffers;
  std::vector<ArrowArray> children;
  std::optional<ArrowArray> dictionary;
};
ArrowArray make_array(Parts parts);
ArrowDeviceArray on_host(ArrowArray array);

/// Arrays made and not released yet.
std::int64_t live_arrays() noexcept;
void release(ArrowArray* array);
void release(ArrowDeviceArray* array);

/// Short ways to fields.
Field field(std::string name, TypeId id, std::vector<Field> children = {});
Field fixed_size_list(std::string name, std::int32_t size, Field child);
Field union_of(std::string name, TypeId id, std::vector<std::int8_t> codes, std::vector<Field> children);
Field run_end_encoded(std::string name, TypeId ends, Field values);
Field dictionary_of(std::string name, TypeId indices, Field values);

/// One field of each type that Crossdock carries, with parameters, and deep combinations of the nested ones.
std::vector<Field> every_type();

/// An array of `length` made-up values of a field's type, a third of them null; every array in it skips `offset`
/// elements, and its null count is given or left unknown.
ArrowArray make_values(const Field& field, std::int64_t length, std::int64_t offset, bool counted);
ArrowArray make_struct(const std::vector<Field>& fields, std::int64_t length, std::int64_t offset, bool counted);

/// A value as text, read by the rules of the C data interface alone: two arrays are equal if their texts are.
std::string value_text(const Field& field, const ArrowArray& array, std::int64_t i);
/// All values of a struct array's columns in rows [start, start + n).
std::string rows_text(const std::vector<Field>& fields, const ArrowArray& array, std::int64_t start, std::int64_t n);

/// Fails a test that leaves an array unreleased, or releases one twice.
class ArrayTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(live_arrays(), 0); }
};

}  // namespace crossdock::array::test
