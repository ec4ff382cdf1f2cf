#include "session/way.h"

#include "crossdock/core/error.h"

namespace crossdock::session {

using transport::Way;

WayAnswer choose_way(const WayQuestion& question) {
  // A region of a live stream is registered for one batch at a time: reading it would cost more than a message.
  const transport::Ways possible =
      question.live ? question.agreed & (Way::kMap | Way::kMessage) : question.agreed & question.of_regions;
  if (question.host_copy && possible.has(Way::kMap)) {
    return {Way::kMap, "the consumer maps a copy on the host: it opens no memory of the source's device"};
  }
  if (possible.has(Way::kMap)) return {Way::kMap, "the consumer maps the server's memory"};
  if (possible.has(Way::kRead)) {
    if (question.wants_parts) return {Way::kRead, "the consumer wants some columns, and reads only those"};
    if (question.one_sided) return {Way::kRead, "the provider serves reads without the server's calls"};
    if (question.prefers_reads) return {Way::kRead, "the consumer asked for reads by the URI that it used"};
    if (!possible.has(Way::kMessage)) return {Way::kRead, "the consumer accepts reads alone"};
  }
  if (possible.has(Way::kMessage)) {
    if (question.host_copy) return {Way::kMessage, "a copy on the host is sent: the two ends share no memory"};
    if (question.on_device) {
      return {Way::kMessage, "the transport sends straight from the memory of the source's device"};
    }
    if (question.tcp) return {Way::kMessage, "tcp has messages alone"};
    if (question.agreed == Way::kMessage) return {Way::kMessage, "the two ends agreed on messages alone"};
    if (question.live) return {Way::kMessage, "the memory of a live stream isn't registered for reads"};
    if (possible.has(Way::kRead)) return {Way::kMessage, "a message costs less than reads of whole bodies"};
    return {Way::kMessage, "the consumer can't take the memory that this source is in"};
  }
  const transport::Ways of_server = question.live ? Way::kMap | Way::kMessage : question.of_regions;
  throw UnsupportedError(std::string("bodies of this ") + (question.live ? "live stream" : "source") +
                         " can't reach this consumer: of the ways that the transport has, the consumer accepts " +
                         transport::to_text(question.agreed) + ", and the server can send these bodies by " +
                         transport::to_text(of_server) + " only: leave the way out");
}

}  // namespace crossdock::session
