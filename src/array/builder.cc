#include "crossdock/array/builder.h"

#include <functional>
#include <limits>
#include <unordered_map>

#include "array/internal/text.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

constexpr std::int64_t kMostOffset = std::numeric_limits<std::int32_t>::max();

/// What keeps the memory of a batch that was built.
std::shared_ptr<const void> owner_of(std::vector<std::shared_ptr<const void>> owners) {
  return std::make_shared<const std::vector<std::shared_ptr<const void>>>(std::move(owners));
}

RecordBatch batch_of(BuiltColumn parts, std::int64_t rows) {
  RecordBatch batch;
  batch.num_rows = rows;
  batch.nodes = std::move(parts.nodes);
  batch.buffers = std::move(parts.buffers);
  batch.owner = owner_of(std::move(parts.owners));
  return batch;
}

}  // namespace

AnyColumnBuilder::AnyColumnBuilder(Field field, std::shared_ptr<device::Arena> arena)
    : field_(std::move(field)), arena_(std::move(arena)), validity_(arena_) {}
AnyColumnBuilder::~AnyColumnBuilder() = default;

void AnyColumnBuilder::count_valid(std::int64_t elements) {
  if (null_count_ != 0) validity_.push_set(elements);
  size_ += elements;
}

void AnyColumnBuilder::count_null() {
  if (null_count_ == 0) validity_.push_set(size_);
  validity_.push(false);
  ++null_count_;
  ++size_;
}

void AnyColumnBuilder::finish_node(BuiltColumn* to) {
  to->nodes.push_back({.length = size_, .null_count = null_count_});
  to->buffers.push_back(validity_.finish(&to->owners));
  size_ = null_count_ = 0;
}

void AnyColumnBuilder::finish_buffer(GrowingBuffer* buffer, BuiltColumn* to) {
  to->buffers.push_back(buffer->finish(&to->owners));
}

void AnyColumnBuilder::check_count(std::int64_t elements) {
  if (elements <= kMostOffset) return;
  throw ResourceError(
      "a batch holds at most 2^31 - 1 values of a dictionary or elements of lists; finish() it earlier");
}

void AnyColumnBuilder::finish_dictionary(AnyColumnBuilder* values, BuiltColumn* to) {
  const std::int64_t rows = values->size();
  BuiltColumn parts;
  values->finish(&parts);
  to->dictionaries.push_back(batch_of(std::move(parts), rows));
}

void ColumnBuilder<bool>::append_null() {
  bits_.push(false);
  count_null();
}

void ColumnBuilder<bool>::finish(BuiltColumn* to) {
  finish_node(to);
  to->buffers.push_back(bits_.finish(&to->owners));
}

struct DictionaryIndex::Impl {
  /// Finds texts without making a std::string.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> texts;
  std::unordered_map<std::uint64_t, std::int32_t> numbers;
};

DictionaryIndex::DictionaryIndex() : impl_(std::make_unique<Impl>()) {}
DictionaryIndex::~DictionaryIndex() = default;

std::int32_t DictionaryIndex::find(std::string_view text) const noexcept {
  const auto found = impl_->texts.find(text);
  return found == impl_->texts.end() ? -1 : found->second;
}

std::int32_t DictionaryIndex::find(std::uint64_t number) const noexcept {
  const auto found = impl_->numbers.find(number);
  return found == impl_->numbers.end() ? -1 : found->second;
}

void DictionaryIndex::add(std::string_view text, std::int32_t index) { impl_->texts.emplace(text, index); }

void DictionaryIndex::add(std::uint64_t number, std::int32_t index) { impl_->numbers.emplace(number, index); }

void DictionaryIndex::clear() noexcept {
  impl_->texts.clear();
  impl_->numbers.clear();
}

BytesBuilder::BytesBuilder(Field field, std::shared_ptr<device::Arena> arena)
    : AnyColumnBuilder(std::move(field), std::move(arena)), offsets_(this->arena()), bytes_(this->arena()) {}

void BytesBuilder::append_bytes(const void* bytes, std::size_t size) {
  if (size > static_cast<std::size_t>(kMostOffset - bytes_.size())) {
    throw ResourceError(in_field(excerpt(field().name)) +
                        ": its elements are more than 2 GiB together: finish() this batch, and go on with the next");
  }
  if (offsets_.size() == 0) offsets_.push(std::int32_t{0});
  bytes_.append(bytes, static_cast<std::int64_t>(size));
  offsets_.push(static_cast<std::int32_t>(bytes_.size()));
  count_valid();
}

void BytesBuilder::append_null() {
  if (offsets_.size() == 0) offsets_.push(std::int32_t{0});
  offsets_.push(static_cast<std::int32_t>(bytes_.size()));
  count_null();
}

void BytesBuilder::reserve(std::int64_t elements) {
  constexpr std::int64_t kOffset = sizeof(std::int32_t);
  offsets_.reserve(elements, kOffset, offsets_.size() == 0 ? kOffset : 0);
}

void BytesBuilder::finish(BuiltColumn* to) {
  finish_node(to);
  to->buffers.push_back(offsets_.finish(&to->owners));
  to->buffers.push_back(bytes_.finish(&to->owners));
}

ListBuilder::ListBuilder(Field field, std::shared_ptr<device::Arena> arena)
    : AnyColumnBuilder(std::move(field), std::move(arena)), offsets_(this->arena()) {}

void ListBuilder::push_end() {
  check_count(content().size());
  if (offsets_.size() == 0) offsets_.push(std::int32_t{0});
  end_ = content().size();
  offsets_.push(static_cast<std::int32_t>(end_));
}

void ListBuilder::check_lists() {
  if (content().size() != end_) {
    throw InvalidArgumentError(in_field(excerpt(field().name)) + ": its last " +
                               std::to_string(content().size() - end_) +
                               " elements are in no list; call append_list() after those of each list");
  }
  content().check_lists();
}

void ListBuilder::append_list() {
  push_end();
  count_valid();
}

void ListBuilder::append_null() {
  push_end();
  count_null();
}

void ListBuilder::reserve(std::int64_t elements) {
  constexpr std::int64_t kOffset = sizeof(std::int32_t);
  offsets_.reserve(elements, kOffset, offsets_.size() == 0 ? kOffset : 0);
}

void ListBuilder::finish(BuiltColumn* to) {
  finish_node(to);
  end_ = 0;
  to->buffers.push_back(offsets_.finish(&to->owners));
  content().finish(to);
}

void AnyColumnBuilder::throw_outside(const std::string& number) const {
  const Type& type = field_.dictionary ? field_.dictionary->type : field_.type;
  const bool is_float = type.id == TypeId::kFloat32 || type.id == TypeId::kFloat64;
  throw InvalidArgumentError(in_field(excerpt(field_.name)) + ": " + number +
                             (is_float ? " has more digits than a " : " is outside of the range of ") +
                             type_name(type));
}

BatchBuilder::BatchBuilder(std::shared_ptr<device::Arena> arena) : arena_(std::move(arena)) {}
BatchBuilder::~BatchBuilder() = default;

void BatchBuilder::check_type(const Field& field, const Type& type, bool matches) {
  // Another type of the same id has other parameters alone, and so the same layout.
  if (matches && type.id == field.type.id) return;
  throw InvalidArgumentError(in_field(excerpt(field.name)) + ": " + cpp_type_name(field) + " isn't built as " +
                             type_name(type) + "; its type is " + type_name(field.type) + ", or one like it");
}

void BatchBuilder::take(std::unique_ptr<AnyColumnBuilder> builder) {
  if (schema_) {
    throw InvalidArgumentError(in_field(excerpt(builder->field().name)) +
                               ": the schema is known already; add() all columns before the first finish()");
  }
  columns_.push_back(std::move(builder));
}

void BatchBuilder::reserve(std::int64_t rows) {
  for (const auto& column : columns_) column->reserve(rows);
}

const std::shared_ptr<const Schema>& BatchBuilder::schema() {
  if (!schema_) {
    std::vector<Field> fields;
    fields.reserve(columns_.size());
    for (const auto& column : columns_) fields.push_back(column->field());
    schema_ = std::make_shared<const Schema>(std::move(fields));
  }
  return schema_;
}

RecordBatch BatchBuilder::finish() {
  const std::int64_t rows = columns_.empty() ? 0 : columns_.front()->size();
  for (const auto& column : columns_) {
    if (column->size() == rows) continue;
    throw InvalidArgumentError("columns of a batch have one length, but \"" + excerpt(columns_.front()->field().name) +
                               "\" has " + std::to_string(rows) + " elements and \"" + excerpt(column->field().name) +
                               "\" has " + std::to_string(column->size()));
  }
  for (const auto& column : columns_) column->check_lists();
  schema();
  BuiltColumn parts;
  for (const auto& column : columns_) column->finish(&parts);
  std::vector<RecordBatch> dictionaries = std::move(parts.dictionaries);
  RecordBatch batch = batch_of(std::move(parts), rows);
  batch.schema = schema_;
  for (std::size_t i = 0; i < dictionaries.size(); ++i) {
    dictionaries[i].schema = schema_->dictionaries()[i].values;
    batch.dictionaries.push_back(std::make_shared<const RecordBatch>(std::move(dictionaries[i])));
  }
  return batch;
}

}  // namespace crossdock::array
