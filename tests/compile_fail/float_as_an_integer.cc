// error: use of deleted function
#include <optional>

#include "crossdock/array/builder.h"

using crossdock::array::ColumnBuilder;

#ifdef WRONG
void append(ColumnBuilder<int>& column) { column.append(std::optional(1.5)); }
#else
void append(ColumnBuilder<int>& column) { column.append(std::optional(1)); }
void append(ColumnBuilder<double>& column) { column.append(1); }
#endif
