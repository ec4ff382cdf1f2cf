#pragma once

// The durations and time points of <chrono>, without its calendars, formats and streams: libstdc++ has them in a header
// of their own. The rest of its <chrono> would be an eighth of the time that the main header takes to compile.
#if __has_include(<bits/chrono.h>)
#include <bits/chrono.h>  // IWYU pragma: export
#else
#include <chrono>  // IWYU pragma: export
#endif
