#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crossdock/core/bytes.h"
#include "crossdock/core/error.h"
#include "crossdock/device/region.h"
#include "crossdock/dissociated/wire.h"
#include "session/published_table.h"

namespace crossdock::session {

/// A message that is ready to be sent. The spans are valid until pop().
struct Outgoing {
  ByteSpan metadata;
  bool has_body = false;
  std::span<const dissociated::RemoteBuffer> buffers;  ///< Local addresses: region index of this stream, offset.
  std::uint32_t slot = 0;  ///< Comes back in returned(), once for each buffer that isn't empty.
  std::int64_t rows = 0;
  std::uint64_t bytes = 0;
};

/// What a connection sends to one consumer: seen from the server's I/O thread, which never waits for it.
class ServerStream {
 public:
  virtual ~ServerStream() = default;

  enum class State : std::uint8_t {
    kReady,    ///< *out is filled; the same message until pop().
    kLater,    ///< Nothing now; the server is woken when there is.
    kStarved,  ///< Nothing, until the consumer gives memory back.
    kEnd,
  };
  /// Throws the error that ends the stream (the source's, FileChangedError, ...).
  virtual State peek(Outgoing* out) = 0;
  virtual void pop() = 0;
  virtual const std::shared_ptr<const device::Region>& region(std::uint32_t index) const = 0;
  /// One buffer of a message came home.
  virtual void returned(std::uint32_t slot) noexcept = 0;
  /// Nothing more is asked for, whether it ended or not; leases may still be out.
  virtual void over() noexcept {}
};

/// A published table, at one consumer's pace.
class TableStream final : public ServerStream {
 public:
  explicit TableStream(std::shared_ptr<const PublishedTable> table) : table_(std::move(table)) {
    ++table_->readers;
    for (const auto& region : table_->regions) {
      if (region->kind() == device::RegionKind::kFile) file_ = region.get();
    }
  }

  ~TableStream() override { --table_->readers; }
  TableStream(const TableStream&) = delete;
  TableStream& operator=(const TableStream&) = delete;

  State peek(Outgoing* out) override {
    if (next_ == table_->messages.size()) return State::kEnd;
    if (table_->breaking) {
      throw FileChangedError("the file behind this stream is about to change: another process waits to write to it");
    }
    if (file_ != nullptr) file_->check_unchanged();
    const PublishedMessage& message = table_->messages[next_];
    *out = {
        table_->metadata_of(message), message.has_body, table_->buffers_of(message), 0, message.rows, message.bytes};
    return State::kReady;
  }
  void pop() override { ++next_; }
  const std::shared_ptr<const device::Region>& region(std::uint32_t index) const override {
    return table_->regions[index];
  }
  void returned(std::uint32_t) noexcept override {}

 private:
  std::shared_ptr<const PublishedTable> table_;
  const device::Region* file_ = nullptr;
  std::size_t next_ = 0;
};

}  // namespace crossdock::session
