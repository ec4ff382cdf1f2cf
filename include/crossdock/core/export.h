#pragma once

/// Marks what the installed library offers. Everything else is hidden (the library is built with -fvisibility=hidden).
#define CROSSDOCK_EXPORT __attribute__((visibility("default")))
