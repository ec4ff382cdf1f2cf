#include "worker.h"

#include <utility>

namespace crossdock::transport::ucx {
namespace {

constexpr int kTurns = 16;  // of one progress(): each reads some 10 KiB from each socket
constexpr int kClosingTurns = 10'000;

}  // namespace

Worker::Lock::Lock(Worker& worker) : worker_(worker) {
  worker.context().library().check_fork();
  lock_ = std::unique_lock(worker.mutex_);
}

Worker::Lock::~Lock() { ended_ = worker_.operations_.take_ended(); }

Worker::Worker(std::shared_ptr<const UcxContext> context, const ReceiveLimits& limits, std::string where)
    : where_(std::move(where)),
      handle_(std::make_unique<WorkerHandle>(std::move(context))),
      operations_(handle_->api()),
      inbox_(*handle_, limits, where_) {}

Worker::~Worker() {
  if (!context().library().in_child()) {
    inbox_.close();
    // Lets UCX destroy what belonged to the endpoint: 1.22 corrupts its memory if the worker has to do that.
    for (int turn = 0; turn < kClosingTurns && handle_->progress(); ++turn) {
    }
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
  const Lock lock(*this);
  turn();
  if (armed_) handle_->signal();
}

void Worker::turn() {
  for (int turn = 0; turn < kTurns && !inbox_.full(); ++turn) {
    const bool worked = handle_->progress();
    inbox_.collect();
    if (!worked) break;
  }
}

bool Worker::ready() {
  const Lock lock(*this);
  return inbox_.ready();
}

std::optional<Received> Worker::take() {
  const Lock lock(*this);
  return inbox_.take();
}

bool Worker::in_message() {
  const Lock lock(*this);
  return inbox_.in_message();
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

bool Worker::arm() {
  const Lock lock(*this);
  armed_ = !inbox_.ready() && handle_->arm();
  return armed_;
}

void Worker::signal() const noexcept {
  if (!context().library().in_child()) handle_->signal();
}

std::size_t Worker::operations() {
  const Lock lock(*this);
  return operations_.count();
}

std::size_t Worker::copied_bytes() {
  const Lock lock(*this);
  return operations_.copied_bytes();
}

void Worker::record_failure(EndpointState& state, ucs_status_t status) noexcept {
  if (!state.failure) state.failure = status;
  if (armed_) handle_->signal();
}

}  // namespace crossdock::transport::ucx
