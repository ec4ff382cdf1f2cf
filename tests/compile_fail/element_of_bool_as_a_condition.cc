// error: could not convert|cannot convert|no matching function
#include "crossdock/array/column.h"

using crossdock::array::Column;

// Is it null, or false?
#ifdef WRONG
bool known(const Column<bool>& flags) { return flags[0] ? true : false; }
#else
bool known(const Column<bool>& flags) { return flags[0].has_value(); }
bool known(const Column<double>& numbers) { return numbers[0] ? true : false; }
// A value of bool isn't taken for "there is a value".
std::optional<bool> element(const Column<bool>& flags) { return std::optional<bool>(flags[0]); }
#endif
