// A user's program, with the installed headers and library only. Exits with 1 where they don't work together.
#include <iostream>

#include "crossdock/core/error.h"
#include "crossdock/dissociated/uri.h"
#include "crossdock/version.h"

int main() {
  std::cout << "crossdock " << crossdock::version() << '\n';
  if (crossdock::version() != CROSSDOCK_VERSION) {
    std::cerr << "the headers are of " << CROSSDOCK_VERSION << '\n';
    return 1;
  }
  const auto uri = crossdock::dissociated::parse_uri("shm:/run/x.sock?want_data=7");
  if (uri.scheme != "shm" || uri.address != "/run/x.sock" || uri.want_data != 7u) {
    std::cerr << "the URI was not understood\n";
    return 1;
  }
  // An exception crosses the library's boundary as its own class.
  try {
    crossdock::dissociated::parse_uri("shm:/run/x.sock?want_data=seven");
  } catch (const crossdock::UriError& error) {
    std::cout << error.what() << '\n';
    return 0;
  }
  std::cerr << "a bad want_data was taken\n";
  return 1;
}
