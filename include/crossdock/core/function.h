#pragma once

// std::function, without what else is in <functional>: libstdc++ has it in a header of its own. The rest
// includes <unordered_map> and the algorithms, which take long to compile.
#if __has_include(<bits/std_function.h>)
#include <bits/std_function.h>  // IWYU pragma: export
#else
#include <functional>  // IWYU pragma: export
#endif
