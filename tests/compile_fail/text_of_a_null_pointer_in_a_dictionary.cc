// error: use of deleted function
#include "crossdock/array/builder.h"

using Texts = crossdock::array::ColumnBuilder<crossdock::array::Dictionary<std::string_view>>;

#ifdef WRONG
void append(Texts& column) { column.append(nullptr); }
#else
void append(Texts& column) { column.append("JFK"); }
#endif
