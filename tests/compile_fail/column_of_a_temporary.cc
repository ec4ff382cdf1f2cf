// error: use of deleted function
#include "crossdock/array/column.h"
#include "crossdock/array/stream.h"

#ifdef WRONG
auto column(crossdock::array::BatchStream& stream) { return stream.next()->column<double>("x"); }
auto of_what_is_gone() { return crossdock::array::RecordBatch().column<double>("x"); }
#else
auto column(const crossdock::array::RecordBatch& batch) { return batch.column<double>("x"); }
#endif
