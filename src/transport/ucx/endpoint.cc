#include "endpoint.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "control.h"
#include "crossdock/core/error.h"
#include "remote_key.h"

namespace crossdock::transport::ucx {
namespace {

constexpr std::size_t kMaxOperations = 4096;  // under way at once
// A body begins where there is room for one operation, and then all of its pieces do.
static_assert(kMaxOperations + kMaxPieces <= kMaxUnfetched);
static_assert(Connection::kMaxDeviceParts < kMaxPieces);
constexpr std::array<std::byte, 64> kZeros{};
constexpr std::size_t kMaxAsked = 64;  // requests for bytes of the peer's memory, before another group of them

ucp_request_param_t params_for(Operation& operation) {
  ucp_request_param_t params = memory_params(&operation, operation.memory_type);
  params.cb.send = Operations::on_end;
  return params;
}

/// The parts of an operation as arguments of UCX's calls.
struct Gather {
  Gather(const Operation& operation, ucp_request_param_t* params) {
    if (operation.parts.empty()) return;
    const bool one = operation.parts.size() == 1;
    buffer = one ? operation.parts[0].buffer : operation.parts.data();
    count = one ? operation.parts[0].length : operation.parts.size();
    if (!one) params->datatype = ucp_dt_make_iov();
  }
  const void* buffer = nullptr;
  std::size_t count = 0;
};

}  // namespace

std::unique_ptr<Endpoint> Endpoint::connect(std::shared_ptr<Worker> worker, const SocketAddress& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr = {.addr = address.get(), .addrlen = address.size};
  const std::string doing = "connecting to " + worker->where();
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(worker), params, doing));
}

Endpoint::Endpoint(std::shared_ptr<Worker> worker, ucp_ep_params_t params, const std::string& doing)
    : worker_(std::move(worker)),
      state_([this]() -> Worker::EndpointState& {
        const Worker::Lock lock(*worker_);
        return worker_->endpoints_.emplace_back(*worker_);
      }()),
      packed_(worker_->context().packed_memory()) {
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.arg = &state_;
  params.err_handler.cb = [](void* arg, ucp_ep_h, ucs_status_t status) {
    auto& state = *static_cast<Worker::EndpointState*>(arg);
    state.worker.record_failure(state, status);
  };
  const Worker::Lock lock(*worker_);
  const UcxContext& context = worker_->context();
  context.library().check(context.api().ep_create(worker_->handle_->get(), &params, &state_.endpoint), doing);
}

Endpoint::~Endpoint() {
  const Api& api = worker_->context().api();
  if (worker_->context().library().in_child()) return;
  try {
    const Worker::Lock lock(*worker_);
    Operation& operation = worker_->operations_.begin();
    ucp_request_param_t params = params_for(operation);
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;
    const ucs_status_ptr_t result = api.ep_close_nbx(state_.endpoint, &params);
    if (!UCS_PTR_IS_PTR(result)) worker_->operations_.end(operation, UCS_PTR_RAW_STATUS(result));
  } catch (...) {  // The worker closes it when it is destroyed.
  }
}

bool Endpoint::has_operation() const { return worker_->operations_.count() < kMaxOperations; }

bool Endpoint::has_room(std::size_t bytes) const {
  const Operations& operations = worker_->operations_;
  return has_operation() && (operations.copied_bytes() == 0 || operations.copied_bytes() + bytes <= max_copied_);
}

void Endpoint::check_usable() const {
  const std::string& where = worker_->where();
  if (flush_ != nullptr) throw ClosedError("the connection to " + where + " was closed by this end");
  if (!state_.failure) return;
  throw ConnectionError("the connection to " + where +
                        " has ended: " + worker_->context().library().text(*state_.failure));
}

/// Calls `start` with the parameters of an operation, and handles the three ways in which it may go on. The caller
/// holds the worker's lock.
template <typename Start>
void Endpoint::start(Operation& operation, Start start) {
  Worker& worker = *worker_;
  const ucp_request_param_t params = params_for(operation);
  const ucs_status_ptr_t result = start(params);
  if (UCS_PTR_IS_PTR(result)) {
    // A thread that sleeps doesn't see everything that the rest of the operation needs (UCX's shared memory).
    if (worker.armed_) worker.handle_->signal();
    return;
  }
  const ucs_status_t status = UCS_PTR_RAW_STATUS(result);
  worker.operations_.end(operation, status);
  if (status == UCS_OK) return;
  worker.record_failure(state_, status);
  check_usable();
}

bool Endpoint::send_active(MessageKind kind, ByteSpan head, ByteSpan tail) {
  const Worker::Lock lock(*worker_);
  check_usable();
  if (!(kind == MessageKind::kControl ? has_operation() : has_room(head.size() + tail.size()))) return false;
  post_active(kind, head, tail);
  return true;
}

/// Sends an active message without asking whether there is room. The caller holds the worker's lock.
void Endpoint::post_active(MessageKind kind, ByteSpan head, ByteSpan tail) {
  Operation& operation = worker_->operations_.begin_copy(head, tail);
  start(operation, [&](const ucp_request_param_t& params) {
    return worker_->context().api().am_send_nbx(state_.endpoint, static_cast<unsigned>(kind), nullptr, 0,
                                                operation.copy.data(), operation.copy.size(), &params);
  });
}

bool Endpoint::send_tagged(std::uint64_t tag, ByteSpan head, ByteSpan tail) {
  const Worker::Lock lock(*worker_);
  check_usable();
  if (!has_room(head.size() + tail.size())) return false;
  Operation& operation = worker_->operations_.begin_copy(head, tail);
  start(operation, [&](const ucp_request_param_t& params) {
    return worker_->context().api().tag_send_nbx(state_.endpoint, operation.copy.data(), operation.copy.size(), tag,
                                                 &params);
  });
  return true;
}

bool Endpoint::send_body(std::uint64_t tag, std::span<const ByteSpan> parts, const std::shared_ptr<const void>& keep,
                         PiecesAhead* ahead) {
  const std::size_t total = size_of(parts);
  if (ahead != nullptr && parts.size() > 1 && total > kLargePiece) {
    const std::vector<BodyPiece> pieces = pieces_of(parts);
    if (pieces.size() > 1 || !pieces[0].prefix.empty()) {
      return send_pieces({.tag = tag, .total = total}, pieces, keep, ahead);
    }
  }
  const Worker::Lock lock(*worker_);
  check_usable();
  if (!has_room(0)) return false;
  Operation& operation = begin_piece({.prefix = {}, .parts = parts, .size = total}, keep);
  start(operation, [&](ucp_request_param_t params) {
    const Gather bytes(operation, &params);
    return worker_->context().api().tag_send_nbx(state_.endpoint, bytes.buffer, bytes.count, tag, &params);
  });
  return true;
}

/// Returns an operation for the parts of a piece, which are packed if that is worth a copy and doesn't cost too much
/// memory.
Operation& Endpoint::begin_piece(const BodyPiece& piece, const std::shared_ptr<const void>& keep) {
  if (!piece.packable() || !packed_.has_room(piece.size)) return worker_->operations_.begin_gather(piece.parts, keep);
  const std::shared_ptr<std::byte> packed = packed_.pack(piece.parts, piece.size);
  const ByteSpan whole(packed.get(), piece.size);
  return worker_->operations_.begin_gather({&whole, 1}, packed);
}

bool Endpoint::send_pieces(const PieceHead& head, std::span<const BodyPiece> pieces,
                           const std::shared_ptr<const void>& keep, PiecesAhead* ahead, ucs_memory_type_t memory_type) {
  const Worker::Lock lock(*worker_);
  check_usable();
  // The first of a group decides, as in read().
  if (!has_room(0) || (ahead != nullptr && !ahead->add(small_bytes_of(pieces)))) return false;
  // All memory is taken before the first piece is sent: a body can't end in the middle.
  std::vector<Operation*> operations;
  operations.reserve(pieces.size());
  std::size_t started = 0;
  try {
    for (const BodyPiece& piece : pieces) {
      Operation& operation = begin_piece(piece, keep);
      operations.push_back(&operation);
      if (memory_type != UCS_MEMORY_TYPE_HOST && !piece.parts.empty()) {
        operation.memory_type = memory_type;
        operation.told_of_failure = &state_;
      }
      operation.header.resize(PieceHead::kBytes);
      encode(head, operation.header.data());
      for (const ByteSpan part : piece.prefix)
        operation.header.insert(operation.header.end(), part.begin(), part.end());
    }
    for (const BodyPiece& piece : pieces) {
      post_with_header(*operations[started++], kPieceId, piece.size >= kLargePiece ? UCP_AM_SEND_FLAG_RNDV : 0);
    }
  } catch (...) {
    for (; started < operations.size(); ++started) {
      operations[started]->told_of_failure = nullptr;
      worker_->operations_.end(*operations[started], UCS_ERR_CANCELED);
    }
    throw;
  }
  return true;
}

bool Endpoint::send_device_body(std::uint64_t tag, std::span<const ByteSpan> parts, ucs_memory_type_t memory_type,
                                const std::shared_ptr<const void>& keep, PiecesAhead* ahead) {
  // The padding behind a part goes in the next piece's header: the host can write it there.
  std::vector<ByteSpan> paddings(parts.size() + 1);
  std::vector<BodyPiece> pieces;
  pieces.reserve(paddings.size());
  std::size_t total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t size = parts[i].size();
    const std::size_t padded = align_up(size, kZeros.size());
    paddings[i + 1] = ByteSpan(kZeros).first(padded - size);
    pieces.push_back({.prefix = {&paddings[i], 1}, .parts = parts.subspan(i, 1), .size = size});
    total += padded;
  }
  if (total == 0) return send_body(tag, {}, keep);
  if (!paddings.back().empty()) pieces.push_back({.prefix = {&paddings.back(), 1}, .parts = {}, .size = 0});
  return send_pieces({.tag = tag, .total = total}, pieces, keep, ahead, memory_type);
}

void Endpoint::send_answer(std::uint64_t request, std::span<const ByteSpan> parts, std::shared_ptr<const void> keep) {
  const Worker::Lock lock(*worker_);
  check_usable();
  Operation& operation = worker_->operations_.begin_gather(parts, std::move(keep));
  operation.header.resize(sizeof request);
  store_le(operation.header.data(), request);
  post_with_header(operation, kAnswerId, 0);
}

/// Sends the parts of an operation as an active message. The caller holds the worker's lock.
void Endpoint::post_with_header(Operation& operation, unsigned id, unsigned flags) {
  start(operation, [&](ucp_request_param_t params) {
    const Gather bytes(operation, &params);
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = flags;
    return worker_->context().api().am_send_nbx(state_.endpoint, id, operation.header.data(), operation.header.size(),
                                                bytes.buffer, bytes.count, &params);
  });
}

std::shared_ptr<Outcome> Endpoint::ask(std::span<const ReadPart> parts, const std::shared_ptr<const void>& keep) {
  const Worker::Lock lock(*worker_);
  check_usable();
  if (!has_operation() || worker_->reads_.count() >= kMaxAsked) return nullptr;
  std::vector<ReadPart> asked;
  std::ranges::copy_if(parts, std::back_inserter(asked), [](const ReadPart& part) { return part.length > 0; });
  const std::size_t requests = (asked.size() + kMaxPartsOfRead - 1) / kMaxPartsOfRead;
  auto outcome = std::make_shared<Outcome>(requests, worker_->reads_.unseen());
  for (std::span<const ReadPart> left = asked; !left.empty();) {
    const auto next = left.first(std::min(left.size(), kMaxPartsOfRead));
    const std::uint64_t id = worker_->reads_.begin(next, outcome, keep);
    try {
      post_active(MessageKind::kControl, encode_read(id, next), {});
    } catch (...) {
      worker_->reads_.cancel(id);
      throw;
    }
    left = left.subspan(next.size());
  }
  return outcome;
}

std::shared_ptr<Outcome> Endpoint::read(std::span<const RemotePart> parts, const std::shared_ptr<const void>& keep) {
  if (!worker_->context().remote_reads()) throw std::logic_error("this ucx context doesn't allow remote reads");
  const Worker::Lock lock(*worker_);
  check_usable();
  // The first of a group decides: a body may have more parts than there is room for at once.
  if (!has_operation()) return nullptr;
  auto outcome = std::make_shared<Outcome>(parts.size(), worker_->reads_.unseen());
  for (const RemotePart& part : parts) {
    if (part.size == 0) {
      outcome->end(UCS_OK);
      continue;
    }
    Operation& operation = worker_->operations_.begin_read(outcome, keep);
    start(operation, [&](const ucp_request_param_t& params) {
      return worker_->context().api().get_nbx(state_.endpoint, part.to, part.size, part.address, part.key->get(),
                                              &params);
    });
  }
  return outcome;
}

std::optional<std::string> Endpoint::failure() const {
  const Worker::Lock lock(*worker_);
  if (!state_.failure) return std::nullopt;
  return worker_->context().library().text(*state_.failure);
}

bool Endpoint::body_failed() const {
  const Worker::Lock lock(*worker_);
  return state_.body_failed;
}

bool Endpoint::room_for(std::size_t bytes) const {
  const Worker::Lock lock(*worker_);
  return has_room(bytes);
}

bool Endpoint::rejected() const {
  const Worker::Lock lock(*worker_);
  // The other end says "rejected"; this one finds "invalid" what a newer UCX there sends of its address.
  return state_.failure == UCS_ERR_REJECTED || state_.failure == UCS_ERR_INVALID_PARAM;
}

std::shared_ptr<const Outcome> Endpoint::flush() {
  const Worker::Lock lock(*worker_);
  check_usable();
  return post_flush();
}

/// The caller holds the worker's lock.
std::shared_ptr<const Outcome> Endpoint::post_flush() {
  auto outcome = std::make_shared<Outcome>(1);
  Operation& operation = worker_->operations_.begin();
  operation.outcome = outcome;
  // UCX's close with a flush can't be cut short: destroying the worker before its end aborts the process (1.13).
  start(operation, [&](ucp_request_param_t params) {
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    return worker_->context().api().ep_flush_nbx(state_.endpoint, &params);
  });
  return outcome;
}

void Endpoint::finish() {
  const Worker::Lock lock(*worker_);
  if (flush_ != nullptr) return;
  check_usable();
  flush_ = post_flush();
}

bool Endpoint::flushed() const {
  const Worker::Lock lock(*worker_);
  return flush_ != nullptr && flush_->over();
}

}  // namespace crossdock::transport::ucx
