#pragma once

#include <string>
#include <utility>

#include "crossdock/core/log.h"

namespace crossdock::session {

/// Gives the user's log what `text` returns; asks for it only if there is a log. What goes wrong meanwhile (no memory,
/// mostly) costs the line and nothing else: the thread that serves everybody must not end by it.
template <typename Text>
void say(const LogCallback& log, LogLevel level, Text&& text) noexcept {
  if (!log) return;
  try {
    log(level, std::forward<Text>(text)());
  } catch (...) {
  }
}

}  // namespace crossdock::session
