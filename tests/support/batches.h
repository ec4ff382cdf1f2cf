#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/stream.h"

/// Small tables for tests, built by hand.
namespace crossdock::testing {

inline std::shared_ptr<const array::Schema> make_schema(
    const std::vector<std::pair<std::string, array::TypeId>>& columns) {
  std::vector<array::Field> fields;
  for (const auto& [name, type] : columns) {
    array::Field field;
    field.name = name;
    field.type.id = type;
    fields.push_back(std::move(field));
  }
  return std::make_shared<const array::Schema>(std::move(fields));
}

/// Two columns: "number" int64 (first, first + 1, ...) and "text" utf8 (the number in decimal). On the heap, owned by
/// the batch.
inline array::RecordBatch number_batch(std::int64_t first, std::int64_t rows) {
  struct Memory {
    std::vector<std::int64_t> numbers;
    std::vector<std::int32_t> offsets{0};
    std::string text;
  };
  auto memory = std::make_shared<Memory>();
  for (std::int64_t i = first; i < first + rows; ++i) {
    memory->numbers.push_back(i);
    memory->text += std::to_string(i);
    memory->offsets.push_back(static_cast<std::int32_t>(memory->text.size()));
  }
  static const auto schema = make_schema({{"number", array::TypeId::kInt64}, {"text", array::TypeId::kUtf8}});
  array::RecordBatch batch;
  batch.schema = schema;
  batch.num_rows = rows;
  batch.nodes = {{rows, 0, 0}, {rows, 0, 0}};
  batch.buffers = {{nullptr, 0},
                   {memory->numbers.data(), rows * 8},
                   {nullptr, 0},
                   {memory->offsets.data(), (rows + 1) * 4},
                   {memory->text.data(), static_cast<std::int64_t>(memory->text.size())}};
  batch.owner = memory;
  return batch;
}

inline std::int64_t number_at(const array::RecordBatch& batch, std::int64_t row) {
  return static_cast<const std::int64_t*>(batch.buffers[1].data)[row];
}

inline std::string text_at(const array::RecordBatch& batch, std::int64_t row) {
  const auto* offsets = static_cast<const std::int32_t*>(batch.buffers[3].data);
  return {static_cast<const char*>(batch.buffers[4].data) + offsets[row],
          static_cast<std::size_t>(offsets[row + 1] - offsets[row])};
}

/// A stream that calls `next` for each batch; nothing ends it.
class FunctionStream final : public array::BatchStream {
 public:
  using Next = std::function<std::optional<array::RecordBatch>()>;
  FunctionStream(std::shared_ptr<const array::Schema> schema, Next next)
      : schema_(std::move(schema)), next_(std::move(next)) {}
  const std::shared_ptr<const array::Schema>& schema() const override { return schema_; }
  std::optional<array::RecordBatch> next() override { return next_(); }

 private:
  std::shared_ptr<const array::Schema> schema_;
  Next next_;
};

/// `batches` batches of `rows` consecutive numbers, from 0.
inline std::unique_ptr<array::BatchStream> number_stream(int batches, std::int64_t rows) {
  auto left = std::make_shared<int>(batches);
  auto first = std::make_shared<std::int64_t>(0);
  return std::make_unique<FunctionStream>(number_batch(0, 0).schema, [=]() -> std::optional<array::RecordBatch> {
    if ((*left)-- == 0) return std::nullopt;
    *first += rows;
    return number_batch(*first - rows, rows);
  });
}

/// Batches of 100 rows without an end.
inline std::unique_ptr<array::BatchStream> endless_stream() {
  return std::make_unique<FunctionStream>(number_batch(0, 0).schema,
                                          [] { return std::optional(number_batch(0, 100)); });
}

inline std::unique_ptr<array::BatchStream> stream_of(std::vector<array::RecordBatch> batches) {
  auto schema = batches.front().schema;
  return array::make_stream(std::move(schema), std::move(batches));
}

}  // namespace crossdock::testing
