// error: use of deleted function
#include "crossdock/array/builder.h"

using crossdock::array::ColumnBuilder;

#ifdef WRONG
void append(ColumnBuilder<float>& column) { column.append(0.1); }
#else
void append(ColumnBuilder<float>& column) { column.append(0.1F); }
void append(ColumnBuilder<double>& column) { column.append(0.1F); }
#endif
