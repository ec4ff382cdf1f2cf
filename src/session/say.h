#pragma once

#include <utility>

#include "crossdock/core/log.h"

namespace crossdock::session {

/// Writes the text that `text` returns to the user's log. Calls `text` only if there is a log. If this fails (mostly
/// for lack of memory), the line is lost and nothing else: such an error must not end the thread that serves all
/// connections.
template <typename Text>
void say(const LogCallback& log, LogLevel level, Text&& text) noexcept {
  if (!log) return;
  try {
    log(level, std::forward<Text>(text)());
  } catch (...) {
  }
}

}  // namespace crossdock::session
