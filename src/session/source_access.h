#pragma once

#include "crossdock/session/source.h"

namespace crossdock::session {

/// Takes a Source apart for the server; users only make them.
struct SourceAccess {
  static std::unique_ptr<array::BatchStream>& stream(Source& source) { return source.stream_; }
  static std::function<std::unique_ptr<array::BatchStream>()>& make(Source& source) { return source.make_; }
  static const std::string& path(const Source& source) { return source.path_; }
  static Stability stability(const Source& source) { return source.stability_; }
};

}  // namespace crossdock::session
