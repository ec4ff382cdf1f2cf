#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
  /// The body goes by value: these parts back to back, kept by `keep` until they are sent. Then `buffers` and `slot`
  /// mean nothing.
  bool by_value = false;
  std::span<const ByteSpan> parts{};
  std::shared_ptr<const void> keep{};
};

/// Appends `buffer` to a packed body, and what aligns the next one to 64 bytes, as the metadata has it.
void pack(ByteSpan buffer, std::vector<ByteSpan>* parts);

/// What a connection sends to one consumer: seen from the server's I/O thread, which never waits for it.
class ServerStream {
 public:
  virtual ~ServerStream() = default;

  enum class State : std::uint8_t {
    kReady,    ///< *out is filled; the same message until pop().
    kLater,    ///< Nothing now; the server is woken when there is.
    kStarved,  ///< Nothing, until the consumer frees memory.
    kEnd,
  };
  /// Throws the error that ends the stream (the source's, FileChangedError, ...).
  virtual State peek(Outgoing* out) = 0;
  virtual void pop() = 0;
  virtual const std::shared_ptr<const device::Region>& region(std::uint32_t index) const = 0;
  /// A lease of one buffer of a message was freed.
  virtual void returned(std::uint32_t slot) noexcept = 0;
  /// Nothing more is asked for, whether it ended or not; leases may still be out.
  virtual void over() noexcept {}
  /// The consumer sits at its lease limit: what it is waiting for is to come by value.
  virtual void pass_by_value() noexcept {}
  /// After kLater: how long peek() may be left alone at most; 0: until the server is woken.
  virtual int look_again_ms() const noexcept { return 0; }
  /// Whether take_dropped() has something.
  virtual bool has_dropped() const noexcept { return false; }
  /// Appends the indices of regions that have gone: they name nothing any more, or another region from the next message
  /// on that peek() gives.
  virtual void take_dropped(std::vector<std::uint32_t>*) {}
};

/// One more reader of a published table, for as long as it lives: a stream, or a body that is being sent from the
/// table's memory. I/O thread only.
class Reading {
 public:
  explicit Reading(std::shared_ptr<const PublishedTable> table) : table_(std::move(table)) { ++table_->readers; }
  ~Reading() { --table_->readers; }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  std::shared_ptr<const PublishedTable> table_;
};

/// A published table, at one consumer's pace.
class TableStream final : public ServerStream {
 public:
  TableStream(std::shared_ptr<const PublishedTable> table, bool by_value);

  State peek(Outgoing* out) override;
  void pop() override { ++next_; }
  const std::shared_ptr<const device::Region>& region(std::uint32_t index) const override {
    return table_->regions[index];
  }
  void returned(std::uint32_t) noexcept override {}

 private:
  void pack_body(const PublishedMessage& message);

  std::shared_ptr<const PublishedTable> table_;
  std::shared_ptr<const Reading> reading_;
  const device::Region* file_ = nullptr;
  const std::vector<std::shared_ptr<const device::Region>>* readable_;  // by value, else null
  std::size_t next_ = 0;
  std::vector<ByteSpan> parts_;
};

}  // namespace crossdock::session
