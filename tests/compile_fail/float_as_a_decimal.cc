// error: use of deleted function
#include "crossdock/array/builder.h"

using crossdock::array::ColumnBuilder;
using crossdock::array::Int128;

#ifdef WRONG
void append(ColumnBuilder<Int128>& column) { column.append(12.5); }
#else
void append(ColumnBuilder<Int128>& column) { column.append(1250); }
#endif
