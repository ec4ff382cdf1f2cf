#pragma once

// std::function, without what else is in <functional>: libstdc++ has it in a header of its own. The rest, with
// <unordered_map> and the algorithms, would take longer to compile than all others that <string> needs.
#if __has_include(<bits/std_function.h>)
#include <bits/std_function.h>  // IWYU pragma: export
#else
#include <functional>  // IWYU pragma: export
#endif
