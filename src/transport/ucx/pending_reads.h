#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "operations.h"
#include "transport/transport.h"
#include "worker_handle.h"

namespace crossdock::transport::ucx {

class Inbox;

/// Requests for bytes of the peer's memory that this end has sent, and their answers: active messages of id 2, whose
/// header is the request's id. An answer is received straight into the memory that it is for.
///
/// Use it under the worker's lock. UCX's call-backs use it while the worker makes progress, so it must live until the
/// worker is destroyed.
class PendingReads {
 public:
  /// A request. Its address doesn't change: UCX's call-back has it.
  struct Read {
    std::vector<ucp_dt_iov_t> parts;   ///< None is empty.
    std::uint64_t size = 0;            ///< Of all parts.
    std::shared_ptr<Outcome> outcome;  ///< Null once it was told.
    std::shared_ptr<const void> keep;
    bool receiving = false;  ///< UCX writes the memory.
    PendingReads* owner = nullptr;
    std::uint64_t id = 0;
  };

  /// Errors of the peer go to `inbox`. All references must outlive this.
  PendingReads(WorkerHandle& worker, Inbox& inbox, const std::string& where);
  PendingReads(const PendingReads&) = delete;
  PendingReads& operator=(const PendingReads&) = delete;
  /// Ends what is left as cancelled. UCX must be through with it: destroy its worker first.
  ~PendingReads();

  /// Expects the answer to a request, and returns the request's id. `outcome` is told of its end. `keep` holds the
  /// memory that is written.
  std::uint64_t begin(std::span<const ReadPart> parts, std::shared_ptr<Outcome> outcome,
                      std::shared_ptr<const void> keep);
  /// Forgets a request that wasn't sent.
  void cancel(std::uint64_t id) noexcept;
  /// Ends all requests: no answer will come. Memory that UCX may still write is kept.
  void fail(ucs_status_t status) noexcept;

  std::size_t count() const noexcept { return reads_.size(); }
  /// Whether an answer has arrived in part.
  bool receiving() const noexcept { return std::ranges::any_of(reads_, &Read::receiving); }
  /// The bytes that all requests ask for.
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// The number of outcomes that are over and haven't been seen by their owners.
  const std::shared_ptr<std::atomic<std::size_t>>& unseen() const noexcept { return unseen_; }

  /// Returns requests that have ended, so that what they kept is dropped without the lock.
  [[nodiscard]] std::list<Read> take_ended() noexcept;

 private:
  static ucs_status_t on_answer(void* self, const void* header, std::size_t header_size, void* data, std::size_t size,
                                const ucp_am_recv_param_t* param) noexcept;
  ucs_status_t answer(ByteSpan header, void* data, std::size_t size, bool rendezvous);
  void tell(Read& read, ucs_status_t status) noexcept;
  void end(Read& read, ucs_status_t status) noexcept;

  WorkerHandle& worker_;
  Inbox& inbox_;
  const std::string& where_;
  std::list<Read> reads_;
  std::uint64_t bytes_ = 0;  // of these
  std::unordered_map<std::uint64_t, std::list<Read>::iterator> by_id_;
  std::list<Read> ended_;
  std::uint64_t next_id_ = 1;
  const std::shared_ptr<std::atomic<std::size_t>> unseen_ = std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace crossdock::transport::ucx
