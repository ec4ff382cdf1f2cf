// error: no match for
#include "crossdock/session/client.h"

#ifdef WRONG
void set(crossdock::session::GetOptions& options) { options.timeout = 500; }
#else
void set(crossdock::session::GetOptions& options) { options.timeout = std::chrono::milliseconds(500); }
#endif
