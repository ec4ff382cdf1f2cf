#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dissociated/wire.h"
#include "ipc/metadata.h"
#include "random.h"

namespace crossdock::simulation {

inline constexpr int kColumns = 3;
inline constexpr std::uint32_t kMostRows = 12;

/// IPC metadata of streams of three int64 columns, made by the codec once. Every batch has kColumns pairs of buffers:
/// an absent validity, and 8 bytes for each row.
class Metadata {
 public:
  Metadata();
  const std::vector<std::byte>& schema() const { return schema_; }
  const std::vector<std::byte>& batch(std::uint32_t rows) const { return batches_[rows]; }
  const std::vector<std::byte>& dictionary(std::uint32_t rows) const { return dictionaries_[rows]; }
  static std::size_t body_length(std::uint32_t rows) { return kColumns * ((8 * rows + 63) / 64 * 64); }

 private:
  std::vector<std::byte> schema_;
  std::vector<std::vector<std::byte>> batches_;
  std::vector<std::vector<std::byte>> dictionaries_;
};

/// A message after the schema, as its source has it.
struct PlannedMessage {
  bool dictionary = false;
  std::uint32_t rows = 0;
  bool by_value = false;                           ///< Tables only: a live stream's server decides as it goes.
  std::vector<dissociated::RemoteBuffer> buffers;  ///< Tables only: a live stream's memory is taken when it is sent.
};

struct StreamPlan {
  bool live = false;
  std::uint32_t first_number = 1;       ///< Of the message after the schema: near a roll-over, or 1.
  std::optional<std::size_t> fails_at;  ///< Position of the message that the source fails to give; 0: the schema.
  std::vector<PlannedMessage> messages;
};

/// A published table: the same memory for every consumer, some of it sent more than once in a stream.
StreamPlan plan_table(std::uint16_t region, Random random);
/// A live stream: its memory is lent, freed and used again.
StreamPlan plan_live(Random random);

/// What was sent of one stream: what the consumer must see, to the byte.
struct StreamRecord {
  struct Message {
    const std::vector<std::byte>* metadata = nullptr;
    bool has_body = false;
    dissociated::BodyType type = dissociated::BodyType::kPacked;
    std::vector<std::byte> body;
    std::vector<dissociated::RemoteBuffer> buffers;  ///< Of type 1.
  };
  std::shared_ptr<const StreamPlan> plan;
  std::vector<Message> messages;  ///< By position; 0 is the schema.
  /// The consumer took the schema and is ready for numbers from plan->first_number on.
  bool schema_taken = false;
  bool cancelled = false;

  /// The message at a position, entered by whichever server end comes to it first.
  Message& at(std::size_t position) {
    if (position >= messages.size()) messages.resize(position + 1);
    return messages[position];
  }
  /// 4294967295 is followed by 0.
  std::uint32_t number_of(std::size_t position) const {
    return position == 0 ? 0 : plan->first_number + static_cast<std::uint32_t>(position - 1);
  }
  std::size_t position_of(std::uint32_t number) const {
    return std::size_t{number - plan->first_number} + 1;  // modulo 2^32
  }
};

}  // namespace crossdock::simulation
