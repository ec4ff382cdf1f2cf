#pragma once

#include <memory>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"
#include "crossdock/core/export.h"

/// Arrow data that is no struct, such as a chunked array or a series: a table of one column.
namespace crossdock::array {

/// The schema of batches whose producer may give any array.
struct TableSchema {
  std::shared_ptr<const Schema> schema;
  bool of_column = false;  ///< The producer's arrays are no structs, but the one column.
};

/// Reads `field`, which stays the caller's: a struct is a table, any other type a table of one column of its name.
/// Throws as import_schema().
CROSSDOCK_EXPORT TableSchema import_table_schema(ArrowSchema* field);

/// import_batch() of an array as import_table_schema() has read its type. On a throw `*array` may be taken over, too:
/// release it if its release isn't null.
CROSSDOCK_EXPORT RecordBatch import_table(const TableSchema& schema, ArrowDeviceArray* array);

}  // namespace crossdock::array
