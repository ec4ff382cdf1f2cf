// error: no matching function
#include "crossdock/array/builder.h"

#ifdef WRONG
void append(crossdock::array::ColumnBuilder<bool>& column) { column.append("false"); }
#else
void append(crossdock::array::ColumnBuilder<bool>& column) { column.append(false); }
#endif
