#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/device/driver.h"
#include "dissociated/read_queue.h"
#include "dissociated/wire.h"
#include "ipc/metadata.h"
#include "ipc/tensor.h"
#include "session/client_connection.h"
#include "transport/transport.h"

namespace crossdock::session {

/// A message with a body that was taken from the Receiver: a record batch, a dictionary or a tensor.
struct BatchBody {
  ipc::MessageKind kind = ipc::MessageKind::kRecordBatch;
  std::uint32_t sequence = 0;
  std::shared_ptr<const array::Schema> schema;
  bool selected = false;        ///< `schema` has the selected columns only.
  ipc::BatchHeader header;      ///< Of a tensor: with its one buffer, and nothing else.
  ipc::TensorHeader tensor;     ///< Of a tensor.
  bool header_is_read = false;  ///< `header` is what the message says, also for the next message if it repeats.
  std::vector<array::BufferView> views;
  std::shared_ptr<const void> owner;         ///< Of the memory of `views`.
  bool received = false;                     ///< The memory is ours: nobody else writes to it.
  std::shared_ptr<device::Context> context;  ///< Of the device that the memory is on; null: the host.
};

/// A body that waits for its turn: it is being read, or comes after one that is. The connection and the name must
/// outlive it.
class QueuedBody final : public dissociated::ReadQueue::Body {
 public:
  QueuedBody(BatchBody body, transport::Connection& from, const std::string& of_stream)
      : batch(std::move(body)), connection_(from), stream_(of_stream) {}
  // They throw TruncatedStreamError if the connection is lost.
  bool begin() override;
  bool done() override;
  void release() noexcept override { lease = nullptr; }
  void abandon() noexcept override;

  BatchBody batch;
  std::vector<transport::ReadPart> parts;  ///< Empty: nothing is read.
  std::shared_ptr<BatchLease> lease;       ///< Of the peer's memory that is read.
  // For the observer of batches; else empty:
  dissociated::BodyType type = dissociated::BodyType::kPacked;
  std::vector<std::byte> metadata;
  ByteSpan bytes;                           ///< As received: in `bytes_owner`'s memory, or in `copy`.
  std::shared_ptr<const void> bytes_owner;  ///< Null: `bytes` are a copy.
  std::vector<std::byte> copy;
  std::vector<dissociated::RemoteBuffer> remote;

 private:
  [[noreturn]] void throw_truncated(const char* why) const;

  transport::Connection& connection_;
  const std::string& stream_;
  std::unique_ptr<transport::Reading> reading_;
};

}  // namespace crossdock::session
