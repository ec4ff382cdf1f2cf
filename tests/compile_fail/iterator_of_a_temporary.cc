// error: use of deleted function
#include "crossdock/array/column.h"

using crossdock::array::RecordBatch;

#ifdef WRONG
auto first(const RecordBatch& batch) { return batch.column<double>("x").begin(); }
#else
double first(const RecordBatch& batch) {
  for (const auto number : batch.column<double>("x")) return number.value_or(0);
  return 0;
}
#endif
