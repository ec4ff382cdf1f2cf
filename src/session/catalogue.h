#pragma once

#include <memory>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/session/client.h"
#include "session/published_table.h"

namespace crossdock::session {

/// What a server says of one name. `schema` is null if it isn't known yet.
struct CatalogueRow {
  std::string name;
  std::shared_ptr<const array::Schema> schema;
  std::int64_t rows = -1;
  std::int64_t bytes = -1;
};

/// The catalogue as a table like any other (docs/protocol.md, "The catalogue"): name utf8, schema binary (an IPC Schema
/// message; null: unknown), rows and bytes int64 (null: unknown), device utf8.
std::shared_ptr<const PublishedTable> publish_catalogue(const std::vector<CatalogueRow>& rows);

/// Reads a batch of such a table, appending to `*entries`. Throws InvalidDataError: columns are missing or of other
/// types.
void read_catalogue(const array::RecordBatch& batch, std::vector<CatalogueEntry>* entries);

}  // namespace crossdock::session
