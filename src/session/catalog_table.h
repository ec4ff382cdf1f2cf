#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/session/client.h"
#include "session/published_table.h"

namespace crossdock::session {

/// The catalog's entry for one name. `schema` is null if it isn't known yet.
struct CatalogRow {
  std::string name;
  std::shared_ptr<const array::Schema> schema;
  std::int64_t rows = -1;
  std::int64_t bytes = -1;
  device::Device device{};    ///< Where its batches are; the host if that isn't known yet.
  std::string_view way{};     ///< How bodies go to the consumer that asks; empty: they can't.
  std::string_view why{};     ///< The reason.
  std::int64_t version = -1;  ///< Differs from that of any other data under this name; -1: not known.
};

/// The catalog as a table like any other (docs/reference/protocol.md, "The catalog"): name utf8, schema binary (an IPC
/// Schema message; null: unknown), rows and bytes int64 (null: unknown), device utf8, way and why utf8 (null: none),
/// ticket binary (null: it is the name), version int64 (null: unknown).
std::shared_ptr<const PublishedTable> publish_catalog(const std::vector<CatalogRow>& rows);

/// Reads such a table, batch by batch. Trusts nothing in it: a foreign server may send any data, without end.
class CatalogReader {
 public:
  /// Throws InvalidDataError if columns are missing, have other types, or are dictionary-encoded.
  CatalogReader(const array::Schema& schema, const ListOptions& limits);
  /// Throws InvalidDataError, whose text names row and column, and ResourceError, whose text names the limit.
  void read(const array::RecordBatch& batch);
  std::vector<CatalogEntry> take() noexcept { return std::move(entries_); }

 private:
  void charge(std::uint64_t bytes);
  std::string text(const array::RecordBatch& batch, int column, std::int64_t row) const;
  std::string name(const array::RecordBatch& batch, std::int64_t row) const;
  std::string text_or_empty(const array::RecordBatch& batch, int column, std::int64_t row) const;

  ListOptions limits_;
  std::vector<std::size_t> first_buffers_;  // of each column that is there
  std::vector<CatalogEntry> entries_;
  std::uint64_t batches_ = 0;
  std::uint64_t bytes_ = 0;  // estimated memory of entries_
};

}  // namespace crossdock::session
