// error: constraints not satisfied|no matching function
#include "crossdock/array/column.h"

#ifdef WRONG
auto values(const crossdock::array::Column<std::string_view>& texts) { return texts.values(); }
#else
auto values(const crossdock::array::Column<double>& numbers) { return numbers.values(); }
#endif
