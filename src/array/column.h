#pragma once

#include <memory>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"

/// Arrow data that is not a struct, such as a chunked array or a series, as a table of one column.
namespace crossdock::array {

/// The schema of batches from a producer that may give arrays of any type.
struct TableSchema {
  std::shared_ptr<const Schema> schema;
  bool of_column = false;  ///< The producer's arrays are the one column itself, not structs.
};

/// Reads `field`; the caller keeps its ownership. A struct is a table; any other type is a table of one column with the
/// name of the field. Throws as import_schema().
TableSchema import_table_schema(ArrowSchema* field);

/// Imports an array whose type import_table_schema() has read, as import_batch() does. On a throw `*array` may be taken
/// over, too: the caller releases it if its release isn't null.
RecordBatch import_table(const TableSchema& schema, ArrowDeviceArray* array);

}  // namespace crossdock::array
