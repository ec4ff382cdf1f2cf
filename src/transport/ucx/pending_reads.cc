#include "pending_reads.h"

#include <cstring>
#include <utility>

#include "control.h"
#include "inbox.h"

namespace crossdock::transport::ucx {

PendingReads::PendingReads(WorkerHandle& worker, Inbox& inbox, const std::string& where)
    : worker_(worker), inbox_(inbox), where_(where) {
  worker_.handle_messages(kAnswerId, on_answer, this);
}

PendingReads::~PendingReads() {
  for (Read& read : reads_) tell(read, UCS_ERR_CANCELED);
}

std::uint64_t PendingReads::begin(std::span<const ReadPart> parts, std::shared_ptr<Outcome> outcome,
                                  std::shared_ptr<const void> keep) {
  std::list<Read> one;
  Read& read = one.emplace_back();
  read.parts.reserve(parts.size());
  for (const ReadPart& part : parts) {
    ucp_dt_iov_t entry{};
    entry.buffer = part.to;
    entry.length = part.length;
    read.parts.push_back(entry);
    read.size += part.length;
  }
  read.outcome = std::move(outcome);
  read.keep = std::move(keep);
  read.owner = this;
  read.id = next_id_;
  by_id_.emplace(next_id_, one.begin());
  reads_.splice(reads_.end(), one);
  bytes_ += read.size;
  return next_id_++;
}

void PendingReads::cancel(std::uint64_t id) noexcept {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  Read& read = *found->second;
  read.outcome = nullptr;
  end(read, UCS_ERR_CANCELED);
}

void PendingReads::fail(ucs_status_t status) noexcept {
  for (auto next = reads_.begin(); next != reads_.end();) {
    Read& read = *next++;
    if (read.receiving) {
      tell(read, status);
    } else {
      end(read, status);
    }
  }
}

std::list<PendingReads::Read> PendingReads::take_ended() noexcept {
  std::list<Read> ended;
  ended.splice(ended.end(), ended_);
  return ended;
}

ucs_status_t PendingReads::on_answer(void* self, const void* header, std::size_t header_size, void* data,
                                     std::size_t size, const ucp_am_recv_param_t* param) noexcept {
  PendingReads& reads = *static_cast<PendingReads*>(self);
  try {
    return reads.answer({static_cast<const std::byte*>(header), header_size}, data, size,
                        (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
  } catch (...) {
    reads.inbox_.fail_for_current_exception();
    reads.fail(UCS_ERR_NO_MEMORY);
    return UCS_OK;
  }
}

/// Returns what the call-back has to: UCS_OK drops the data.
ucs_status_t PendingReads::answer(ByteSpan header, void* data, std::size_t size, bool rendezvous) {
  const auto found =
      header.size() == sizeof(std::uint64_t) ? by_id_.find(load_le<std::uint64_t>(header.data())) : by_id_.end();
  if (found == by_id_.end() || found->second->receiving || found->second->size != size) {
    inbox_.fail(ErrorCode::kProtocol, where_ + " sent " + std::to_string(size) +
                                          " bytes as the answer to a read that doesn't exist or has another size");
    // A caller that waits for reads alone doesn't take messages, so the reads must fail too.
    fail(UCS_ERR_INVALID_PARAM);
    return UCS_OK;
  }
  Read& read = *found->second;
  if (!rendezvous) {
    const auto* from = static_cast<const std::byte*>(data);
    for (const ucp_dt_iov_t& part : read.parts) {
      std::memcpy(part.buffer, from, part.length);
      from += part.length;
    }
    end(read, UCS_OK);
    return UCS_OK;
  }
  ucp_request_param_t params = memory_params(&read);
  const bool one = read.parts.size() == 1;
  if (!one) params.datatype = ucp_dt_make_iov();
  params.cb.recv_am = [](void* request, ucs_status_t status, std::size_t, void* user_data) {
    Read& ended = *static_cast<Read*>(user_data);
    PendingReads& owner = *ended.owner;
    owner.end(ended, status);
    owner.worker_.api().request_free(request);
  };
  read.receiving = true;
  void* const buffer = one ? read.parts[0].buffer : read.parts.data();
  const std::size_t count = one ? read.parts[0].length : read.parts.size();
  const ucs_status_ptr_t result = worker_.api().am_recv_data_nbx(worker_.get(), data, buffer, count, &params);
  if (!UCS_PTR_IS_PTR(result)) end(read, UCS_PTR_RAW_STATUS(result));
  return UCS_INPROGRESS;
}

void PendingReads::tell(Read& read, ucs_status_t status) noexcept {
  if (const auto outcome = std::exchange(read.outcome, nullptr)) outcome->end(status);
}

void PendingReads::end(Read& read, ucs_status_t status) noexcept {
  tell(read, status);
  bytes_ -= read.size;
  const auto found = by_id_.find(read.id);
  ended_.splice(ended_.end(), reads_, found->second);
  by_id_.erase(found);
}

}  // namespace crossdock::transport::ucx
