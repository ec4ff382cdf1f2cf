#include "session/batch_statistics.h"

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "session/publish_batch.h"

namespace crossdock::session {
namespace {

using array::TypeId;

/// The columns of a table that were asked for and have statistics: their places in the request, and in the table.
struct Chosen {
  std::vector<std::size_t> places;
  std::vector<int> columns;
};

Chosen chosen_of(const PublishedTable& table, const std::vector<std::string>& names) {
  Chosen chosen;
  if (table.on_device()) return chosen;  // its values can't be read here
  const std::vector<array::Field>& fields = table.schema->fields();
  for (std::size_t place = 0; place < names.size(); ++place) {
    const auto is_it = [&](const array::Field& field) { return field.name == names[place]; };
    const auto found = std::ranges::find_if(fields, is_it);
    if (found == fields.end() || !array::BoundsFinder::exist_for(*found)) continue;
    if (std::any_of(found + 1, fields.end(), is_it)) continue;  // the name is ambiguous
    chosen.places.push_back(place);
    chosen.columns.push_back(static_cast<int>(found - fields.begin()));
  }
  return chosen;
}

/// The type of a column's bounds in the table of statistics.
array::Type type_of_bounds(const array::Field& field) {
  array::Type type = field.type;
  if (type.id == TypeId::kUtf8View || type.id == TypeId::kLargeUtf8) type.id = TypeId::kUtf8;
  if (type.id == TypeId::kBinaryView || type.id == TypeId::kLargeBinary) type.id = TypeId::kBinary;
  return type;
}

/// A column under construction, of texts, bools, or values of fixed width.
class StatisticsColumn {
 public:
  explicit StatisticsColumn(array::Field field)
      : field_(std::move(field)),
        texts_(field_.type.id == TypeId::kUtf8 || field_.type.id == TypeId::kBinary),
        bits_(field_.type.id == TypeId::kBool),
        width_(static_cast<std::size_t>(array::type_layout(field_.type).width)) {}

  const array::Field& field() const noexcept { return field_; }

  void append(const std::string* value) {
    const auto bit = std::byte{1} << (length_ % 8);
    if (length_ % 8 == 0) {
      validity_.push_back(std::byte{0});
      if (bits_) values_.push_back(std::byte{0});
    }
    if (value != nullptr) {
      validity_.back() |= bit;
      if (!bits_) {
        const ByteSpan bytes = as_bytes(*value);
        values_.insert(values_.end(), bytes.begin(), bytes.end());
      } else if (value->front() != '\0') {
        values_.back() |= bit;
      }
    } else {
      ++nulls_;
      if (!bits_ && !texts_) values_.resize(values_.size() + width_);
    }
    offsets_.push_back(static_cast<std::int32_t>(values_.size()));
    ++length_;
  }
  void append(std::int64_t value) {
    const std::string bytes(reinterpret_cast<const char*>(&value), sizeof value);
    append(&bytes);
  }

  /// Adds views of the column to a batch.
  void put_into(array::RecordBatch* batch) const {
    const auto view = [](ByteSpan bytes) {
      return array::BufferView{bytes.data(), static_cast<std::int64_t>(bytes.size())};
    };
    batch->nodes.push_back({length_, nulls_, 0});
    batch->buffers.push_back(nulls_ == 0 ? array::BufferView{} : view(validity_));
    if (texts_) batch->buffers.push_back(view(std::as_bytes(std::span(offsets_))));
    batch->buffers.push_back(view(values_));
  }

 private:
  array::Field field_;
  bool texts_;
  bool bits_;
  std::size_t width_;
  std::int64_t length_ = 0;
  std::int64_t nulls_ = 0;
  std::vector<std::byte> validity_;
  std::vector<std::int32_t> offsets_{0};
  std::vector<std::byte> values_;
};

array::Field field_of(std::string name, array::Type type, bool nullable) {
  array::Field field;
  field.name = std::move(name);
  field.type = std::move(type);
  field.nullable = nullable;
  return field;
}

array::Field numbers(std::string name) { return field_of(std::move(name), {.id = TypeId::kInt64}, false); }

std::vector<StatisticsColumn> columns_of(const PublishedTable& table, const Chosen& chosen) {
  std::vector<StatisticsColumn> columns;
  columns.emplace_back(numbers("rows"));
  for (std::size_t i = 0; i < chosen.columns.size(); ++i) {
    const std::string prefix = std::to_string(chosen.places[i]) + ".";
    const array::Type type = type_of_bounds(table.schema->fields()[static_cast<std::size_t>(chosen.columns[i])]);
    columns.emplace_back(numbers(prefix + "nulls"));
    columns.emplace_back(field_of(prefix + "min", type, true));
    columns.emplace_back(field_of(prefix + "max", type, true));
  }
  return columns;
}

/// Makes the table of batch statistics (docs/reference/protocol.md, "Batch statistics"): one row for each batch.
class BatchStatisticsTask final : public TableTask {
 public:
  BatchStatisticsTask(std::shared_ptr<const PublishedTable> table, Chosen chosen)
      : table_(std::move(table)), chosen_(std::move(chosen)) {
    if (!chosen_.columns.empty()) regions_ = table_->readable_regions();  // of the I/O thread
  }

 protected:
  std::shared_ptr<const PublishedTable> make() override {
    const auto table = std::exchange(table_, nullptr);
    const auto regions = std::exchange(regions_, {});
    std::vector<StatisticsColumn> columns = columns_of(*table, chosen_);
    for (const PublishedMessage& message : table->messages) {
      if (message.has_body && message.dictionary.id < 0) columns[0].append(message.rows);
    }
    const auto statistics = table->batch_statistics->of(*table, regions, chosen_.columns);
    for (std::size_t i = 0; i < statistics.size(); ++i) {
      for (const BatchStatistics& batch : *statistics[i]) {
        columns[3 * i + 1].append(batch.nulls);
        columns[3 * i + 2].append(batch.bounds ? &batch.bounds->min : nullptr);
        columns[3 * i + 3].append(batch.bounds ? &batch.bounds->max : nullptr);
      }
    }
    array::RecordBatch batch;
    std::vector<array::Field> fields;
    for (const StatisticsColumn& column : columns) {
      fields.push_back(column.field());
      column.put_into(&batch);
    }
    batch.num_rows = batch.nodes.front().length;
    batch.schema = std::make_shared<const array::Schema>(std::move(fields));
    return publish_batch(batch, "crossdock-batch-statistics", table->version);
  }

 private:
  std::shared_ptr<const PublishedTable> table_;  // until the statistics are made
  std::vector<std::shared_ptr<const device::Region>> regions_;
  const Chosen chosen_;
};

}  // namespace

std::vector<BatchStatisticsCache::Column> BatchStatisticsCache::of(
    const PublishedTable& table, std::span<const std::shared_ptr<const device::Region>> regions,
    std::span<const int> columns) {
  std::map<int, Column> known;
  {
    const std::lock_guard lock(mutex_);
    for (const int column : columns) {
      if (const auto found = kept_.find(column); found != kept_.end()) known.insert(*found);
    }
  }
  std::vector<int> missing;
  for (const int column : columns) {
    if (!known.contains(column) && std::ranges::find(missing, column) == missing.end()) missing.push_back(column);
  }
  if (!missing.empty()) {
    auto computed = compute_batch_statistics(table, regions, missing);
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      const auto column = std::make_shared<const std::vector<BatchStatistics>>(std::move(computed[i]));
      known.emplace(missing[i], column);
      if (n_kept_ + column->size() > kMostBatchStatistics) {
        kept_.clear();
        n_kept_ = 0;
      }
      if (kept_.emplace(missing[i], column).second) n_kept_ += column->size();
    }
  }
  std::vector<Column> all;
  for (const int column : columns) all.push_back(known.at(column));
  return all;
}

std::shared_ptr<TableTask> BatchStatisticsCache::task(const std::shared_ptr<const PublishedTable>& table,
                                                      const std::vector<std::string>& columns, SourcePool& pool) {
  Chosen chosen = chosen_of(*table, columns);
  if (chosen.columns.size() * table->messages.size() > kMostBatchStatistics) {
    throw ResourceError("the statistics of " + std::to_string(chosen.columns.size()) + " columns of a table of " +
                        std::to_string(table->messages.size()) + " batches are too many: ask for fewer columns");
  }
  if (!table->batch_statistics) table->batch_statistics = std::make_shared<BatchStatisticsCache>();
  auto& tasks = table->batch_statistics->tasks_;
  std::erase_if(tasks, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<TableTask>& known = tasks[columns];
  std::shared_ptr<TableTask> task = known.lock();
  if (!task || task->failed()) {
    task = std::make_shared<BatchStatisticsTask>(table, std::move(chosen));
    task->start(pool);
    known = task;
  }
  return task;
}

}  // namespace crossdock::session
