#include "dissociated/uri.h"
#include "fuzz.h"
#include "support/format_uri.h"

/// A URI that is read can be written, and is the same when it is read again.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  dissociated::Uri uri;
  try {
    uri = dissociated::parse_uri(as_text(fuzz::bytes(data, size)));
  } catch (const UriError&) {
    return 0;
  }
  fuzz::require(dissociated::parse_uri(format_uri(uri)) == uri);
  return 0;
}
