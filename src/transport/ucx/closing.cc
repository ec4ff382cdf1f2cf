#include "closing.h"

#include <utility>

#include "control.h"

namespace crossdock::transport::ucx {
namespace {

constexpr int kMessagesPerTurn = 64;

}  // namespace

bool is_of_peer(ErrorCode code) noexcept { return code == ErrorCode::kConnection || code == ErrorCode::kProtocol; }

UcxClosingEnd::UcxClosingEnd(std::shared_ptr<Worker> worker, std::unique_ptr<Endpoint> endpoint, Until until,
                             std::shared_ptr<const OfferedMemory> offered, std::uint64_t sent, std::uint64_t taken,
                             bool peer_left)
    : offered_(std::move(offered)),
      worker_(std::move(worker)),
      endpoint_(std::move(endpoint)),
      until_(until),
      sent_(sent),
      taken_(taken),
      goodbye_sent_(until == Until::kPeerGone || until == Until::kFlushed),
      peer_left_(peer_left) {}

bool UcxClosingEnd::step() {
  worker_->progress();
  const bool failed = endpoint_->failure().has_value();
  std::size_t parts = 0;  // of answers
  for (int i = 0; i < kMessagesPerTurn && parts < OfferedMemory::kPartsPerTurn && may_take(); ++i) {
    const std::optional<Received> got = take();
    if (!got) break;
    if (got->kind != MessageKind::kControl) continue;
    ReadRequest request;
    if (offered_ != nullptr && decode(got->bytes, &request)) parts += offered_->answer(*endpoint_, got->bytes).parts;
    Control control;
    if (!decode(got->bytes, &control)) continue;
    if (control.kind == ControlKind::kTaken) taken_ = control.number;
    if (control.kind == ControlKind::kGoodbye) peer_left_ = true;
  }
  if (failed) return true;
  // A peer that has left closes by force once it has this. UCX 1.13 aborts this process if a message is still being
  // written to that peer's memory then.
  if (!goodbye_sent_ && (!peer_left_ || worker_->sends() == 0)) {
    goodbye_sent_ = endpoint_->send_control(encode(Control{ControlKind::kGoodbye, sent_}));
  }
  if (until_ == Until::kPeerGone) return peer_left_;
  if (until_ == Until::kFlushed) return peer_left_ || flushed();
  if (!goodbye_sent_ || worker_->sends() > 0) return false;
  // UCX 1.13 aborts the peer's process if this end is closed by force while that writes a message to memory here.
  if (peer_left_ || until_ == Until::kSent) return !worker_->in_message();
  return until_ == Until::kTaken && taken_ >= sent_;
}

/// Returns the next message; nothing after an error of this end's own.
std::optional<Received> UcxClosingEnd::take() {
  try {
    return worker_->take();
  } catch (const Error& error) {
    if (is_of_peer(error.code())) throw;
    takes_no_more_ = true;
    return std::nullopt;
  }
}

bool UcxClosingEnd::flushed() {
  // UCX's flush doesn't wait for messages that the peer fetches.
  if (!flushing_ && worker_->sends() == 0) {
    endpoint_->finish();
    flushing_ = true;
  }
  // UCX 1.13 aborts the peer's process if this end is closed by force while that writes to memory here.
  return flushing_ && endpoint_->flushed() && !worker_->in_message();
}

}  // namespace crossdock::transport::ucx
