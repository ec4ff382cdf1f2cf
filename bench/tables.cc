#include "tables.h"

#include <algorithm>
#include <new>
#include <string>

#include "crossdock/core/error.h"

namespace crossdock::bench {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

std::shared_ptr<const array::Schema> float64_schema(int columns) {
  std::vector<array::Field> fields(static_cast<std::size_t>(columns));
  for (int i = 0; i < columns; ++i) {
    fields[static_cast<std::size_t>(i)].name = "f" + std::to_string(i);
    fields[static_cast<std::size_t>(i)].type.id = array::TypeId::kFloat64;
  }
  return std::make_shared<const array::Schema>(std::move(fields));
}

std::vector<array::RecordBatch> make_batches(const std::shared_ptr<const array::Schema>& schema,
                                             std::uint64_t batch_bytes, int sets, const Allocate& allocate,
                                             const std::shared_ptr<const void>& owner) {
  const auto columns = static_cast<std::uint64_t>(schema->fields().size());
  const std::uint64_t rows = batch_bytes / columns / sizeof(double);
  if (rows == 0 || sets < 1) throw InvalidArgumentError("a batch needs at least a row, and a table at least a batch");
  std::vector<array::RecordBatch> batches(static_cast<std::size_t>(sets));
  double value = 0;
  for (array::RecordBatch& batch : batches) {
    value += 1;
    batch.schema = schema;
    batch.num_rows = static_cast<std::int64_t>(rows);
    batch.owner = owner;
    for (std::uint64_t column = 0; column < columns; ++column) {
      auto* data = reinterpret_cast<double*>(allocate(rows * sizeof(double)));
      std::fill_n(data, rows, value);
      batch.nodes.push_back({batch.num_rows, 0, 0});
      batch.buffers.push_back({});  // no validity: nothing is null
      batch.buffers.push_back({data, static_cast<std::int64_t>(rows * sizeof(double))});
    }
  }
  return batches;
}

std::vector<array::RecordBatch> make_heap_batches(const std::shared_ptr<const array::Schema>& schema,
                                                  std::uint64_t batch_bytes, int sets) {
  struct Heap {
    std::vector<void*> blocks;
    ~Heap() {
      for (void* block : blocks) ::operator delete(block, kAlignment);
    }
  };
  const auto heap = std::make_shared<Heap>();
  const auto allocate = [&](std::uint64_t bytes) {
    heap->blocks.reserve(heap->blocks.size() + 1);
    heap->blocks.push_back(::operator new(bytes, kAlignment));
    return static_cast<std::byte*>(heap->blocks.back());
  };
  return make_batches(schema, batch_bytes, sets, allocate, heap);
}

void make_ragged(std::vector<array::RecordBatch>* batches) {
  std::int64_t cut = 0;
  for (array::RecordBatch& batch : *batches) {
    if (batch.num_rows <= cut) throw InvalidArgumentError("ragged batches need more rows than there are sets");
    batch.num_rows -= cut;
    for (array::Node& node : batch.nodes) node.length -= cut;
    for (array::BufferView& buffer : batch.buffers) {
      if (buffer.size != 0) buffer.size -= cut * static_cast<std::int64_t>(sizeof(double));
    }
    ++cut;
  }
}

}  // namespace crossdock::bench
