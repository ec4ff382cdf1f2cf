#include "worker.h"

#include <algorithm>
#include <utility>

namespace crossdock::transport::ucx {
namespace {

constexpr int kWorkerTurns = 16;  // of one progress(): each reads some 10 KiB from each socket
constexpr int kClosingTurns = 10'000;

}  // namespace

Worker::Lock::Lock(Worker& worker) : worker_(worker) {
  worker.context().library().check_fork();
  lock_ = std::unique_lock(worker.mutex_);
}

Worker::Lock::~Lock() {
  ended_ = worker_.operations_.take_ended();
  ended_reads_ = worker_.reads_.take_ended();
}

Worker::Worker(std::shared_ptr<const UcxContext> context, const ReceiveLimits& limits, std::string where)
    : where_(std::move(where)),
      handle_(std::make_unique<WorkerHandle>(std::move(context))),
      operations_(handle_->api(),
                  [](void* told, ucs_status_t status) {
                    auto& state = *static_cast<EndpointState*>(told);
                    state.body_failed = !state.failure.has_value();
                    state.worker.record_failure(state, status);
                  }),
      inbox_(*handle_, limits, where_),
      reads_(*handle_, inbox_, where_) {}

Worker::~Worker() {
  if (!context().library().in_child()) {
    inbox_.close();
    // Lets UCX destroy what belonged to the endpoint: 1.22 corrupts its memory if the worker has to do that.
    for (int turn = 0; turn < kClosingTurns && handle_->progress(); ++turn) {
    }
    destroy_dropped_keys();
  }
  handle_.reset();
}

bool Worker::progress() {
  const Lock lock(*this);
  armed_ = false;
  turn();
  return inbox_.ready();
}

void Worker::push() {
  {
    const Lock lock(*this);
    turn();
  }
  // After what ended operations kept was dropped: the receiving thread may wait for that.
  if (sleeps()) signal();
}

void Worker::turn() {
  // A full queue must not stop reads: its owner may wait for them before it takes a message.
  for (int turn = 0; turn < kWorkerTurns && (!inbox_.full() || reads_.count() > 0); ++turn) {
    const bool worked = handle_->progress();
    inbox_.collect();
    if (!worked) break;
  }
  if (!dropped_keys_.empty() && operations_.reads() == 0) destroy_dropped_keys();
}

/// Makes sure that drop_key() needs no memory.
void Worker::keep_place_for_key() {
  dropped_keys_.reserve(keys_ + 1);
  ++keys_;
}

/// UCX may use a key until the last read with it has ended.
void Worker::drop_key(ucp_rkey_h key) noexcept {
  dropped_keys_.push_back(key);
  if (operations_.reads() == 0) destroy_dropped_keys();
}

void Worker::destroy_dropped_keys() noexcept {
  for (const ucp_rkey_h key : dropped_keys_) context().api().rkey_destroy(key);
  keys_ -= dropped_keys_.size();
  dropped_keys_.clear();
}

bool Worker::ready() {
  const Lock lock(*this);
  return inbox_.ready();
}

std::optional<Received> Worker::take() {
  const Lock lock(*this);
  return inbox_.take();
}

void Worker::throw_failure() {
  const Lock lock(*this);
  inbox_.throw_failure();
}

std::optional<std::pair<MessageKind, std::uint64_t>> Worker::next() {
  const Lock lock(*this);
  return inbox_.next();
}

bool Worker::in_message() {
  const Lock lock(*this);
  return inbox_.in_message() || reads_.receiving() || operations_.reads() > 0;
}

std::uint64_t Worker::expected_bytes() {
  const Lock lock(*this);
  return inbox_.receiving_bytes() + reads_.bytes();
}

void Worker::receive_into(std::shared_ptr<BodyMemory> memory) {
  const Lock lock(*this);
  inbox_.receive_into(std::move(memory));
}

void Worker::limit(const ReceiveLimits& limits) {
  const Lock lock(*this);
  inbox_.limit(limits);
}

void Worker::disarm() {
  const Lock lock(*this);
  armed_ = false;
}

bool Worker::sleeps() {
  const Lock lock(*this);
  return armed_;
}

bool Worker::arm(bool with_messages) {
  const Lock lock(*this);
  // What another thread's progress has ended before this call signals nobody.
  const bool news = *reads_.unseen() > 0 || std::ranges::any_of(endpoints_, [](const EndpointState& state) {
    return state.failure.has_value();
  });
  armed_ = !news && (with_messages || !inbox_.ready()) && handle_->arm();
  return armed_;
}

void Worker::signal() const noexcept {
  if (!context().library().in_child()) handle_->signal();
}

std::size_t Worker::sends() {
  const Lock lock(*this);
  return operations_.count() - operations_.reads();
}

std::size_t Worker::copied_bytes() {
  const Lock lock(*this);
  return operations_.copied_bytes();
}

void Worker::record_failure(EndpointState& state, ucs_status_t status) noexcept {
  if (!state.failure) state.failure = status;
  reads_.fail(status);
  if (armed_) handle_->signal();
}

}  // namespace crossdock::transport::ucx
