#include "closing.h"

#include "transport/net/socket_options.h"

namespace crossdock::transport::fabric {

FabricClosingEnd::~FabricClosingEnd() {
  if (fork_.in_child()) return;  // the sockets are the parent's
  if (traffic_->outgoing() == 0) net::send_goodbye(link_);
  net::shut_down(link_.stream->get());
  traffic_->close();
}

bool FabricClosingEnd::step() {
  traffic_->progress();
  if (traffic_->broken() || net::hung_up(*link_.stream)) return true;
  return traffic_->outgoing() == 0 && announced_.empty();
}

}  // namespace crossdock::transport::fabric
