#include "session/catalog_table.h"

#include <optional>
#include <string_view>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "session/publish_batch.h"
#include "transport/transport.h"

namespace crossdock::session {
namespace {

using array::TypeId;

enum CatalogColumn { kName, kSchema, kRows, kBytes, kDevice, kWay, kWhy, kTicket, kVersion, kColumns };
constexpr int kRequiredColumns = kWay;
constexpr const char* kColumnNames[kColumns] = {"name", "schema", "rows",   "bytes",  "device",
                                                "way",  "why",    "ticket", "version"};
constexpr TypeId kColumnTypes[kColumns] = {TypeId::kUtf8,  TypeId::kBinary, TypeId::kInt64,
                                           TypeId::kInt64, TypeId::kUtf8,   TypeId::kUtf8,
                                           TypeId::kUtf8,  TypeId::kBinary, TypeId::kInt64};
constexpr bool kColumnNullable[kColumns] = {false, true, true, true, false, true, true, true, true};

std::shared_ptr<const array::Schema> catalog_schema() {
  std::vector<array::Field> fields(kColumns);
  for (int i = 0; i < kColumns; ++i) {
    fields[static_cast<std::size_t>(i)].name = kColumnNames[i];
    fields[static_cast<std::size_t>(i)].type.id = kColumnTypes[i];
    fields[static_cast<std::size_t>(i)].nullable = kColumnNullable[i];
  }
  return std::make_shared<array::Schema>(std::move(fields));
}

// A column under construction. Integer columns leave `offsets` empty.
struct ColumnBuilder {
  std::vector<std::byte> validity;
  std::vector<std::int32_t> offsets{0};
  std::vector<std::byte> values;
  std::int64_t length = 0;
  std::int64_t nulls = 0;

  void append(std::optional<ByteSpan> value) {
    if (length % 8 == 0) validity.push_back(std::byte{0});
    if (value) {
      validity.back() |= std::byte{1} << (length % 8);
      values.insert(values.end(), value->begin(), value->end());
      if (values.size() > INT32_MAX) throw ResourceError("the catalog is over 2 GiB; publish fewer or smaller schemas");
    } else {
      ++nulls;
    }
    offsets.push_back(static_cast<std::int32_t>(values.size()));
    ++length;
  }
  void append_int(std::int64_t value) {
    // A null has the value zero in memory, as in all fixed-width columns.
    const std::int64_t stored = value < 0 ? 0 : value;
    append(std::as_bytes(std::span(&stored, 1)));
    if (value < 0) {
      validity.back() &= ~(std::byte{1} << ((length - 1) % 8));
      ++nulls;
    }
  }
};

array::BufferView view(ByteSpan bytes) { return {bytes.data(), static_cast<std::int64_t>(bytes.size())}; }

std::string_view text_at(const array::RecordBatch& batch, std::size_t first_buffer, std::int64_t row) {
  const auto* offsets = static_cast<const std::byte*>(batch.buffers[first_buffer + 1].data);
  const array::BufferView& values = batch.buffers[first_buffer + 2];
  const auto from = load_le<std::int32_t>(offsets + row * 4);
  const auto to = load_le<std::int32_t>(offsets + row * 4 + 4);
  if (from < 0 || to < from || to > values.size)
    throw InvalidDataError("the server's catalog has offsets out of range");
  return {static_cast<const char*>(values.data) + from, static_cast<std::size_t>(to - from)};
}

bool valid_at(const array::RecordBatch& batch, std::size_t first_buffer, std::int64_t row) {
  const auto* bits = static_cast<const std::byte*>(batch.buffers[first_buffer].data);
  return bits == nullptr || ((bits[row / 8] >> (row % 8)) & std::byte{1}) != std::byte{0};
}

std::int64_t int_at(const array::RecordBatch& batch, std::size_t first_buffer, std::int64_t row) {
  if (!valid_at(batch, first_buffer, row)) return -1;
  const auto* values = static_cast<const std::byte*>(batch.buffers[first_buffer + 1].data);
  return load_le<std::int64_t>(values + row * 8);
}

}  // namespace

std::shared_ptr<const PublishedTable> publish_catalog(const std::vector<CatalogRow>& rows) {
  ColumnBuilder columns[kColumns];
  ipc::Encoder encoder;
  for (const CatalogRow& row : rows) {
    const bool is_text = is_text_name(row.name);
    const std::string name = is_text ? row.name : printable(row.name);
    columns[kName].append(as_bytes(name));
    columns[kTicket].append(is_text ? std::nullopt : std::optional(as_bytes(row.name)));
    columns[kSchema].append(row.schema ? std::optional(encoder.schema(*row.schema)) : std::nullopt);
    columns[kRows].append_int(row.rows);
    columns[kBytes].append_int(row.bytes);
    columns[kDevice].append(as_bytes(device::to_string(row.device)));
    columns[kWay].append(row.way.empty() ? std::nullopt : std::optional(as_bytes(row.way)));
    columns[kWhy].append(row.why.empty() ? std::nullopt : std::optional(as_bytes(row.why)));
    columns[kVersion].append_int(row.version);
  }

  array::RecordBatch batch;
  batch.schema = catalog_schema();
  batch.num_rows = static_cast<std::int64_t>(rows.size());
  for (int i = 0; i < kColumns; ++i) {
    const ColumnBuilder& column = columns[i];
    batch.nodes.push_back({column.length, column.nulls, 0});
    batch.buffers.push_back(column.nulls == 0 ? array::BufferView{} : view(column.validity));
    if (kColumnTypes[i] != TypeId::kInt64) batch.buffers.push_back(view(std::as_bytes(std::span(column.offsets))));
    batch.buffers.push_back(view(column.values));
  }

  return publish_batch(batch, "crossdock-catalog");
}

CatalogReader::CatalogReader(const array::Schema& schema, const ListOptions& limits) : limits_(limits) {
  const auto& fields = schema.fields();
  for (std::size_t i = 0; i < kColumns; ++i) {
    if (fields.size() <= i || fields[i].name != kColumnNames[i] || fields[i].type.id != kColumnTypes[i]) {
      if (i >= kRequiredColumns) break;  // those of an earlier version, or of another server
      throw InvalidDataError(
          "the server's catalog is invalid: expected the columns name, schema, rows, bytes, device, but it has\n" +
          schema.to_string());
    }
    first_buffers_.push_back(schema.nodes()[i].first_buffer);
  }
  // A dictionary would be kept from batch to batch, and each batch may make it grow.
  if (!schema.dictionaries().empty()) {
    throw InvalidDataError("the server's catalog is invalid: a column is dictionary-encoded, in\n" +
                           schema.to_string());
  }
}

void CatalogReader::charge(std::uint64_t bytes) {
  bytes_ += bytes;
  if (bytes_ > limits_.max_bytes) {
    throw ResourceError("the server's catalog takes more than " + std::to_string(limits_.max_bytes) + " bytes, after " +
                        std::to_string(entries_.size()) + " entries; if that is expected, raise max_bytes of list()");
  }
}

std::string CatalogReader::text(const array::RecordBatch& batch, int column, std::int64_t row) const {
  const std::string_view bytes = text_at(batch, first_buffers_[static_cast<std::size_t>(column)], row);
  if (!is_utf8(bytes)) {
    throw InvalidDataError(std::string("the server's catalog: the ") + kColumnNames[column] + " in row " +
                           std::to_string(entries_.size()) + " isn't UTF-8: " + shown(bytes));
  }
  return std::string(bytes);
}

std::string CatalogReader::text_or_empty(const array::RecordBatch& batch, int column, std::int64_t row) const {
  const auto at = static_cast<std::size_t>(column);
  return at < first_buffers_.size() && valid_at(batch, first_buffers_[at], row) ? text(batch, column, row) : "";
}

/// Returns a published name, which may be bytes: then the column of names has a text for people.
std::string CatalogReader::name(const array::RecordBatch& batch, std::int64_t row) const {
  std::string shown_name = text(batch, kName, row);
  if (first_buffers_.size() <= kTicket || !valid_at(batch, first_buffers_[kTicket], row)) return shown_name;
  std::string ticket(text_at(batch, first_buffers_[kTicket], row));
  if (ticket.empty() || is_text_name(ticket)) {
    throw InvalidDataError("the server's catalog: the ticket in row " + std::to_string(entries_.size()) +
                           " is a text, and has no place beside the name: " + shown(ticket));
  }
  return ticket;
}

void CatalogReader::read(const array::RecordBatch& batch) {
  const auto rows = static_cast<std::uint64_t>(batch.num_rows);
  if (++batches_ > limits_.max_entries || rows > limits_.max_entries - entries_.size()) {
    throw ResourceError("the server's catalog has more than " + std::to_string(limits_.max_entries) +
                        " entries or batches; if that is expected, raise max_entries of list()");
  }
  const ipc::Limits limits;
  for (std::int64_t row = 0; row < batch.num_rows; ++row) {
    CatalogEntry entry;
    entry.name = name(batch, row);
    entry.device = text(batch, kDevice, row);
    entry.way = transport::way_named(text_or_empty(batch, kWay, row));
    entry.why = text_or_empty(batch, kWhy, row);
    charge(sizeof(CatalogEntry) + entry.name.size() + entry.device.size() + entry.why.size());
    if (valid_at(batch, first_buffers_[kSchema], row)) {
      // Copied, because the original may have any alignment.
      const std::string bytes(text_at(batch, first_buffers_[kSchema], row));
      charge(bytes.size());
      entry.schema = ipc::Message::parse(as_bytes(bytes), limits, "a schema in the server's catalog").schema();
      // Fields in a flatbuffer may share their data, so few bytes can describe many fields.
      charge(entry.schema->nodes().size() * (sizeof(array::Field) + sizeof(array::LayoutNode)));
    }
    entry.rows = int_at(batch, first_buffers_[kRows], row);
    entry.bytes = int_at(batch, first_buffers_[kBytes], row);
    if (first_buffers_.size() > kVersion) entry.version = int_at(batch, first_buffers_[kVersion], row);
    entries_.push_back(std::move(entry));
  }
}

}  // namespace crossdock::session
