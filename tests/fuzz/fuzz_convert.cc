#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "array/convert.h"
#include "crossdock/array/record_batch.h"
#include "fuzz.h"

namespace {

using namespace crossdock;
using namespace crossdock::array;
using enum TypeId;

Field field(TypeId type, std::vector<Field> children = {}) {
  Field made;
  made.type.id = type;
  made.children = std::move(children);
  return made;
}

Field dictionary(TypeId index, TypeId values) {
  Field made = field(index);
  made.dictionary = std::make_shared<Field>(field(values));
  return made;
}

/// One of the encodings of text, or of lists of text.
Field encoding(std::uint8_t which, bool list) {
  const std::vector<Field> texts = {field(kUtf8),
                                    field(kLargeUtf8),
                                    field(kUtf8View),
                                    dictionary(kInt8, kUtf8),
                                    dictionary(kUInt64, kLargeUtf8),
                                    dictionary(kInt16, kUtf8View)};
  const Field& text = texts[which % texts.size()];
  return list ? field(which & 0x80 ? kLargeList : kList, {text}) : text;
}

/// A batch of one column. All buffers are as large as its lengths ask for; their content is from the input.
RecordBatch batch_of(std::shared_ptr<const Schema> schema, std::int64_t rows, fuzz::Input* input) {
  RecordBatch batch;
  const auto memory = std::make_shared<std::vector<std::unique_ptr<std::byte[]>>>();
  const auto add = [&](std::int64_t size) {
    memory->push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(size)));
    const ByteSpan from = input->take(static_cast<std::size_t>(size));
    std::copy(from.begin(), from.end(), memory->back().get());
    batch.buffers.push_back({memory->back().get(), size});
  };
  batch.owner = memory;
  batch.num_rows = rows;
  std::int64_t length = rows;
  for (const LayoutNode& node : schema->nodes()) {
    const std::int64_t offset = input->number<std::uint8_t>() % 16;
    const std::int64_t end = offset + length;
    batch.nodes.push_back({length, -1, offset});
    for (std::size_t i = 0; i < node.type.n_buffers; ++i) {
      const BufferKind kind = node.type.buffers[i];
      if (kind == BufferKind::kValidity) {
        add((end + 7) / 8);
      } else if (kind == BufferKind::kOffsets32 || kind == BufferKind::kOffsets64) {
        add((end + 1) * (kind == BufferKind::kOffsets32 ? 4 : 8));
      } else if (kind == BufferKind::kBytes) {
        add(input->number<std::uint8_t>());
      } else {
        add(end * element_width(kind, node.type.width));
      }
    }
    if (node.type.variadic) {
      batch.variadic_counts.push_back(2);
      for (int i = 0; i < 2; ++i) add(input->number<std::uint8_t>());
    }
    length = input->number<std::uint8_t>();  // of the list's child, or of the dictionary
  }
  for (const DictionarySlot& slot : schema->dictionaries()) {
    batch.dictionaries.push_back(std::make_shared<RecordBatch>(batch_of(slot.values, length, input)));
  }
  batch.schema = std::move(schema);
  return batch;
}

bool is_valid(const RecordBatch& batch) {
  try {
    check_full(batch);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

/// A column from another process, in whose memory anything may be, in another encoding. Valid data stays valid.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(fuzz::bytes(data, size));
  const bool list = input.number<std::uint8_t>() % 2 == 1;
  const auto from = std::make_shared<const Schema>(std::vector{encoding(input.number<std::uint8_t>(), list)});
  const auto to = std::make_shared<const Schema>(std::vector{encoding(input.number<std::uint8_t>(), list)});
  const RecordBatch batch = batch_of(from, input.number<std::uint8_t>(), &input);
  const bool was_valid = is_valid(batch);
  try {
    std::int64_t copied = 0;
    const RecordBatch converted = Conversion(*from, to).apply(batch, &copied);
    fuzz::require(!was_valid || is_valid(converted));
  } catch (const Error& error) {
    fuzz::require(!was_valid || error.code() == ErrorCode::kExport);
  }
  return 0;
}
