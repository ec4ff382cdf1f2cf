#include "crossdock/session/source.h"

#include <utility>

namespace crossdock::session {

Source Source::table(std::unique_ptr<array::BatchStream> stream) {
  Source source;
  source.kind_ = Kind::kTable;
  source.stream_ = std::move(stream);
  return source;
}

Source Source::live(std::unique_ptr<array::BatchStream> stream) {
  Source source;
  source.kind_ = Kind::kLive;
  source.stream_ = std::move(stream);
  return source;
}

Source Source::factory(std::function<std::unique_ptr<array::BatchStream>()> make) {
  Source source;
  source.kind_ = Kind::kFactory;
  source.make_ = std::move(make);
  return source;
}

Source Source::file(std::string path, Stability stability) {
  Source source;
  source.kind_ = Kind::kFile;
  source.path_ = std::move(path);
  source.stability_ = stability;
  return source;
}

}  // namespace crossdock::session
