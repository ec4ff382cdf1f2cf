#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "inbox.h"
#include "operations.h"
#include "pending_reads.h"
#include "worker_handle.h"

namespace crossdock::transport::ucx {

/// A worker for one connection: it receives its messages, and does the work of its endpoint, which keeps it. (A tagged
/// message doesn't say who sent it, so two connections can't share a worker.)
///
/// Thread-safe: each call holds the worker's lock. Only one thread, the receiving one, may call progress(), take(),
/// arm(), disarm() and receive_into(). All but signal() throw ForkError in a forked child.
class Worker {
 public:
  /// `where` names the peer in errors. Throws ForkError, and what UCX's calls throw.
  Worker(std::shared_ptr<const UcxContext> context, const ReceiveLimits& limits, std::string where);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Ends everything that is under way. UCX touches no memory of its operations after that. Does nothing in a forked
  /// child.
  ~Worker();

  const UcxContext& context() const noexcept { return handle_->context(); }
  const std::string& where() const noexcept { return where_; }
  /// The longest header of an active message that this worker can send, in bytes.
  std::size_t max_header() const noexcept { return handle_->max_header(); }

  /// Does a bounded amount of work: receives, and moves sends on. Receives nothing while the queue of messages is full.
  /// Returns whether take() has a message or an error.
  bool progress();
  /// Moves sends on, for a thread that isn't the receiving one. Wakes the receiving thread if it sleeps: this may have
  /// taken the event that it waits for.
  void push();
  /// Whether take() has a message or an error.
  bool ready();
  /// Returns the next message. Null: none has arrived whole. Throws as Inbox::take() does.
  std::optional<Received> take();
  /// Throws the error of the peer's that take() throws after the last message, if there is one already.
  void throw_failure();
  /// Returns the kind and the tag of the message that take() returns next; nothing if it has none.
  std::optional<std::pair<MessageKind, std::uint64_t>> next();
  /// Whether a message or the answer to a read has arrived in part, or a read by remote key is under way. After the
  /// peer is gone, the rest won't come.
  bool in_message();
  /// The bytes of messages that UCX writes to our memory, and those that were asked for.
  std::uint64_t expected_bytes();
  /// Sets the memory for tagged messages, from the next one that is begun; null: a pool of the worker's.
  void receive_into(std::shared_ptr<BodyMemory> memory);
  /// Sets the limits for messages from now on.
  void limit(const ReceiveLimits& limits);

  /// Makes descriptor() readable at the next event, of receiving or of sending. Returns false if there is something to
  /// do already: call progress() and take() first. `with_messages`: messages that wait to be taken don't count. After
  /// true, poll descriptor(), then call progress().
  bool arm(bool with_messages = false);
  /// Ends arm(): nothing wakes this thread any more.
  void disarm();
  /// Whether the receiving thread may sleep: arm() has returned true, and neither disarm() nor progress() came after.
  bool sleeps();
  int descriptor() const noexcept { return handle_->descriptor(); }
  /// Makes descriptor() readable.
  void signal() const noexcept;

  /// The sends that are under way, and the bytes that were copied for them.
  std::size_t sends();
  std::size_t copied_bytes();
  /// The number of reads of the peer's memory that have ended, and whose owner hasn't seen that.
  std::size_t unseen_reads() const noexcept { return *reads_.unseen(); }

 private:
  friend class Endpoint;
  friend class RemoteKey;
  friend class UcxListener;

  /// What UCX's call-backs of an endpoint use. Lives as long as the worker, since they may come late.
  struct EndpointState {
    explicit EndpointState(Worker& its_worker) : worker(its_worker) {}
    Worker& worker;
    ucp_ep_h endpoint = nullptr;
    std::optional<ucs_status_t> failure;
    bool body_failed = false;  // that is why: memory of a device couldn't be sent
  };

  /// The worker's lock. Drops what ended operations kept after it was released. Throws ForkError in a forked child.
  class Lock {
   public:
    explicit Lock(Worker& worker);
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock();

   private:
    Worker& worker_;
    std::list<Operation> ended_;
    std::list<PendingReads::Read> ended_reads_;
    std::unique_lock<std::mutex> lock_;
  };

  void keep_place_for_key();
  void drop_key(ucp_rkey_h key) noexcept;
  void turn();
  void destroy_dropped_keys() noexcept;
  void record_failure(EndpointState& state, ucs_status_t status) noexcept;

  const std::string where_;
  std::mutex mutex_;
  std::unique_ptr<WorkerHandle> handle_;  // destroyed first: UCX's call-backs use what follows
  Operations operations_;
  Inbox inbox_;
  PendingReads reads_;
  std::list<EndpointState> endpoints_;
  std::size_t keys_ = 0;                  // the remote keys that aren't destroyed yet
  std::vector<ucp_rkey_h> dropped_keys_;  // those that are destroyed once no read uses them
  bool armed_ = false;                    // the receiving thread may sleep
};

}  // namespace crossdock::transport::ucx
