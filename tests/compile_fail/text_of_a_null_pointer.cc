// error: use of deleted function
#include "crossdock/array/builder.h"

#ifdef WRONG
void append(crossdock::array::ColumnBuilder<std::string_view>& column) { column.append(nullptr); }
#else
void append(crossdock::array::ColumnBuilder<std::string_view>& column) { column.append_null(); }
#endif
