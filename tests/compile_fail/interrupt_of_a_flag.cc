// error: cannot convert|no matching|invalid initialization|could not convert
#include "crossdock/session/client.h"

#ifdef WRONG
auto get(crossdock::session::Client& client, bool stop) { return client.get("x", {}, stop); }
#else
auto get(crossdock::session::Client& client, bool& stop) {
  return client.get("x", {}, [&stop] { return stop; });
}
#endif
