// error: use of deleted function
#include "crossdock/array/column_view.h"
#include "crossdock/array/stream.h"

using crossdock::array::ColumnView;

#ifdef WRONG
ColumnView column(crossdock::array::BatchStream& stream) { return ColumnView(*stream.next(), 0); }
#else
ColumnView column(const crossdock::array::RecordBatch& batch) { return ColumnView(batch, 0); }
#endif
