// error: ignoring returned value
#include "crossdock/peers/peer.h"

#ifdef WRONG
void poll(crossdock::peers::Peer& peer) { peer.try_recv(); }
#else
void poll(crossdock::peers::Peer& peer) { static_cast<void>(peer.try_recv()); }
#endif
