#pragma once

#include "crossdock/session/source.h"

namespace crossdock::session {

/// Gives the server access to the members of a Source; users only make sources.
struct SourceAccess {
  static std::unique_ptr<array::BatchStream>& stream(Source& source) { return source.stream_; }
  static std::function<std::unique_ptr<array::BatchStream>()>& make(Source& source) { return source.make_; }
  static const std::string& path(const Source& source) { return source.path_; }
  static Stability stability(const Source& source) { return source.stability_; }
};

}  // namespace crossdock::session
