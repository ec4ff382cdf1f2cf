#include "fuzz.h"
#include "session/statistics_text.h"

/// Statistics that are read can be written, and are the same when they are read again.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  session::ServerStats stats;
  try {
    stats = session::statistics_in(as_text(fuzz::bytes(data, size)));
  } catch (const InvalidDataError&) {
    return 0;
  }
  const std::string text = session::statistics_text(stats, session::kMostStatisticsText);
  fuzz::require(session::statistics_text(session::statistics_in(text), session::kMostStatisticsText) == text);
  return 0;
}
