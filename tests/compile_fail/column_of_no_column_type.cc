// error: constraints|constraint
#include <string>

#include "crossdock/array/column.h"

#ifdef WRONG
auto column(const crossdock::array::RecordBatch& batch) { return batch.column<std::string>("x"); }
#else
auto column(const crossdock::array::RecordBatch& batch) { return batch.column<std::string_view>("x"); }
#endif
