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

/// Reads `field` as import_schema() does: a struct is a table, any other type a table of one column with the name of
/// the field.
TableSchema import_table_schema(const ArrowSchema& field);

/// Imports an array whose type import_table_schema() has read, as import_batch() does.
RecordBatch import_table(const TableSchema& schema, ArrowDeviceArray* array);

}  // namespace crossdock::array
