#include "server_end.h"

#include <algorithm>
#include <utility>

#include "crossdock/core/error.h"
#include "device/region_address.h"
#include "failure.h"
#include "support/freed.h"

namespace crossdock::simulation {
namespace {

using dissociated::BodyType;
using dissociated::FreeRule;
using dissociated::RemoteBuffer;
using dissociated::Sender;

constexpr std::uint64_t kPerBlock = 2 * kColumns;

std::vector<std::byte> joined(ByteSpan head, ByteSpan tail) {
  std::vector<std::byte> bytes;
  bytes.reserve(head.size() + tail.size());
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.insert(bytes.end(), tail.begin(), tail.end());
  return bytes;
}

/// Bytes that no other body of the same size has.
std::vector<std::byte> packed_body(std::uint32_t stream, std::size_t position, std::size_t size) {
  std::vector<std::byte> body(size);
  Random random((std::uint64_t{stream} << 32) | position);
  for (std::byte& byte : body) byte = static_cast<std::byte>(random.below(256));
  return body;
}

}  // namespace

ServerEnd::ServerEnd(const Options& options, Environment& environment, Wire& wire, Books& books, Random random)
    : options_(options),
      environment_(environment),
      wire_(wire),
      books_(books),
      random_(random),
      sender_(std::in_place, kWantData, kFreeData, options.peer),
      model_(options.peer.counted_leases ? FreeRule::kCounted : FreeRule::kAsSpecified) {}

bool ServerEnd::turn() {
  if (gone_) return false;
  bool progress = false;
  while (const std::optional<Packet> packet = wire_.to_server.receive(environment_.now)) {
    progress = true;
    check(*packet);
    if (gone_) return true;
    if (!environment_.draining && random_.one_in(3)) break;
  }
  if (wire_.to_server.ended()) {
    environment_.note(books_.consumer, [] { return "its server sees the connection's end"; });
    drop();
    return true;
  }
  const std::uint32_t messages = environment_.draining ? 64 : random_.below(4);
  for (std::uint32_t i = 0; i < messages && !gone_ && advance(); ++i) progress = true;
  return progress;
}

/// Whether the rules call this message an error; what it frees, up to there, is appended.
bool ServerEnd::is_error(const Packet& packet, std::vector<std::uint64_t>* freed) {
  if (!packet.tagged) return !options_.peer.cancel || packet.bytes.size() != 5 || packet.bytes[0] != std::byte{0};
  if (packet.tag == kWantData) return streaming_;
  if (packet.tag != kFreeData || packet.bytes.size() % 8 != 0) return true;
  for (std::size_t at = 0; at < packet.bytes.size(); at += 8) {
    if (!model_.free(load_le<std::uint64_t>(packet.bytes.data() + at), freed)) return true;
  }
  return false;
}

void ServerEnd::check(const Packet& packet) {
  environment_.happened(packet.tag ^ packet.bytes.size());
  std::vector<std::uint64_t> expected;
  const bool error = is_error(packet, &expected);
  require(!error || !options_.honest, name() + " is honest, but what it sent is an error by the model's rules");
  std::vector<dissociated::Freed> leases;
  bool refused = false;
  bool cancelled = false;
  auto event = Sender::Action::kFreed;
  try {
    if (packet.tagged) {
      event = sender_->on_tagged(packet.tag, packet.bytes, &leases);
      while (sender_->freeing()) sender_->free_more(&leases);
    } else {
      cancelled = sender_->on_untagged(packet.bytes);
    }
  } catch (const ProtocolError& problem) {
    refused = true;
    environment_.note(books_.consumer, [&] { return std::string("is refused: ") + problem.what(); });
  }
  require(refused == error, name() + (error ? ": a message that breaks the rules was taken"
                                            : ": a message that keeps the rules was refused"));
  const std::vector<std::uint64_t> freed = holders(leases);
  require(freed == expected, name() + ": a message freed " + std::to_string(freed.size()) + " leases where it ends " +
                                 std::to_string(expected.size()) + ", or others than those");
  check_totals();
  check_reads(packet);
  return_blocks(freed);
  if (refused) return drop();
  if (packet.tagged && packet.tag == kWantData) {
    require(event == Sender::Action::kWantData && sender_->streaming(), name() + ": want_data began no stream");
    begin(packet.bytes);
  }
  require(cancelled == (!packet.tagged && streaming_), name() + ": a cancel was taken wrongly");
  if (cancelled) {
    record_->cancelled = true;
    fail_stream("CancelledError: as asked");
  }
}

void ServerEnd::begin(ByteSpan ticket) {
  streaming_ = true;
  record_ = books_.records.at(ticket.empty() ? 0 : std::to_integer<std::size_t>(ticket[0]));
  position_ = 0;
  jumped_ = false;
  ++stream_;
  if (record_->plan->live) {
    live_[stream_].region = options_.live_region++;
    live_[stream_].out.resize(options_.live_blocks);
  }
  end_if_only_bodies();
}

/// No End of Stream goes over a connection of bodies alone, so the client may ask for the next stream as soon as it has
/// the last body, or at once where there is none: the stream must be over by then.
void ServerEnd::end_if_only_bodies() {
  const std::size_t bodies = record_->plan->messages.size();
  if (options_.role != Role::kData || (bodies != 0 && position_ != bodies + 1)) return;
  sender_->end_of_stream();
  end_stream();
}

bool ServerEnd::advance() {
  if (!streaming_ || wire_.to_client.in_flight() >= options_.window) return false;
  const StreamPlan& plan = *record_->plan;
  if (position_ == 1 && !jumped_ && plan.first_number != 1) {
    // The two ends agree to go on with another number: four thousand million messages are too many to wait for.
    if (!record_->schema_taken) return false;
    sender_->set_next_sequence(plan.first_number);
    jumped_ = true;
  }
  // Number 0 is known to be the schema's only as long as numbers weren't made to jump.
  const bool jumps_later = position_ == 0 && options_.role == Role::kData && plan.first_number != 1;
  if (options_.fails && plan.fails_at == position_ && !jumps_later) {
    fail_stream("RemoteError: the source failed");
    return true;
  }
  if (position_ != plan.messages.size() + 1) return send_message();
  const dissociated::PrefixBytes end = sender_->end_of_stream();
  wire_.to_client.send({false, 0, {end.begin(), end.end()}, false}, environment_.now);
  environment_.note(books_.consumer, [&] { return "is sent the end, after " + std::to_string(position_); });
  end_stream();
  return true;
}

bool ServerEnd::send_message() {
  const bool has_body = position_ != 0;
  const PlannedMessage schema;
  const PlannedMessage& planned = has_body ? record_->plan->messages[position_ - 1] : schema;
  std::vector<RemoteBuffer> buffers = planned.buffers;
  std::uint32_t block = 0;
  bool by_value = planned.by_value;
  if (has_body && record_->plan->live) {
    by_value = !take_live_block(planned.rows, &buffers, &block);
    if (by_value && options_.waits_at_limit) return false;
  }
  StreamRecord::Message& message = record_->at(position_);
  message.has_body = has_body;
  message.metadata = !has_body            ? &environment_.metadata.schema()
                     : planned.dictionary ? &environment_.metadata.dictionary(planned.rows)
                                          : &environment_.metadata.batch(planned.rows);
  const dissociated::PrefixBytes prefix = sender_->next_message();
  if (options_.role != Role::kData) {
    wire_.to_client.send({false, 0, joined(prefix, *message.metadata), false}, environment_.now);
  }
  if (has_body && options_.role != Role::kMetadata) {
    message.type = by_value ? BodyType::kPacked : BodyType::kRemote;
    if (by_value) {
      message.body = packed_body(stream_, position_, Metadata::body_length(planned.rows));
    } else {
      message.buffers = buffers;
      dissociated::write_remote_body(buffers, &message.body);
      const std::uint64_t holder = (std::uint64_t{stream_} << 32) | block;
      sender_->leases().lend(buffers, holder);
      for (const RemoteBuffer& buffer : buffers) {
        if (buffer.address == 0) continue;
        model_.lend(buffer, holder);
        ++books_.entitled[buffer.address];
      }
      check_totals();
    }
    wire_.to_client.send({true, sender_->body_tag(message.type), message.body, false}, environment_.now);
  }
  environment_.note(books_.consumer, [&] {
    return "is sent message " + std::to_string(record_->number_of(position_)) +
           (!has_body  ? ""
            : by_value ? " by value"
                       : " by address");
  });
  ++position_;
  end_if_only_bodies();
  return true;
}

/// A block that nobody holds; false where all are out.
bool ServerEnd::take_live_block(std::uint32_t rows, std::vector<RemoteBuffer>* buffers, std::uint32_t* block) {
  LiveMemory& memory = live_[stream_];
  const auto idle = std::find(memory.out.begin(), memory.out.end(), 0u);
  if (idle == memory.out.end()) return false;
  *block = static_cast<std::uint32_t>(idle - memory.out.begin());
  for (int i = 0; i < kColumns; ++i) {
    buffers->push_back({});
    buffers->push_back({});
    if (rows == 0) continue;
    // Two columns may be one buffer: its address is sent twice then.
    const std::uint64_t column = static_cast<std::uint64_t>(random_.one_in(3) ? 0 : i);
    const std::uint64_t offset = 64 * (1 + *block * kPerBlock + column);
    buffers->back() = {device::make_address(memory.region, offset), 8 * rows};
    ++*idle;
    require(books_.entitled[buffers->back().address] == 0 || !options_.honest,
            name() + ": memory at " + std::to_string(buffers->back().address) +
                " is written again while the client still holds it");
  }
  return true;
}

void ServerEnd::end_stream() {
  model_.stream_ended();
  streaming_ = false;
}

void ServerEnd::fail_stream(const std::string& reason) {
  if (position_ == 1 && !jumped_ && record_->schema_taken && record_->plan->first_number != 1) {
    sender_->set_next_sequence(record_->plan->first_number);
    jumped_ = true;
  }
  std::vector<std::byte> message = sender_->error(reason);
  environment_.note(books_.consumer, [&] { return "has its stream ended by " + reason; });
  require(message.empty() != options_.peer.error_messages,
          name() + ": an error message for a client that doesn't know them, or none for one that does");
  end_stream();
  if (message.empty()) return drop();
  wire_.to_client.send({false, 0, std::move(message), false}, environment_.now);
}

void ServerEnd::return_blocks(const std::vector<std::uint64_t>& holders) {
  for (const std::uint64_t holder : holders) {
    const auto memory = live_.find(static_cast<std::uint32_t>(holder >> 32));
    if (memory == live_.end()) continue;  // a table's: never used for anything else
    std::uint32_t& out = memory->second.out[static_cast<std::uint32_t>(holder)];
    require(out != 0, name() + ": more leases of a block were freed than were lent");
    --out;
  }
}

void ServerEnd::check_totals() const {
  if (!sender_) return;  // the ledger ended with the connection
  require(sender_->leases().outstanding() == model_.outstanding(),
          name() + ": " + std::to_string(sender_->leases().outstanding()) + " leases are out; it should be " +
              std::to_string(model_.outstanding()));
  require(sender_->leases().outstanding_bytes() == model_.outstanding_bytes(),
          name() + ": " + std::to_string(sender_->leases().outstanding_bytes()) + " bytes are out; it should be " +
              std::to_string(model_.outstanding_bytes()));
}

/// Memory may be used for something else as soon as its last lease has ended: each read needs a lease of its own.
void ServerEnd::check_reads(const Packet& packet) const {
  if (!options_.honest || !packet.tagged || packet.tag != kFreeData) return;
  for (std::size_t at = 0; at < packet.bytes.size(); at += 8) {
    const auto address = load_le<std::uint64_t>(packet.bytes.data() + at);
    require(model_.leases_of(address) >= books_.reads_under_way(address, environment_.now),
            name() + ": memory at " + std::to_string(address) + " was freed while it is being read");
  }
}

/// The connection is over, whoever ended it: all leases of the client are released, and no others.
void ServerEnd::drop() {
  check_totals();  // what another's end did to this one's leases is seen here at the latest
  gone_ = true;
  streaming_ = false;
  wire_.to_client.close();
  wire_.to_server.close();
  sender_.reset();
  return_blocks(model_.free_all());
  if (options_.role != Role::kMetadata) books_.entitled.clear();
  check_nothing_is_out();
}

void ServerEnd::check_nothing_is_out() const {
  check_totals();
  require(model_.outstanding() == 0,
          name() + ": " + std::to_string(model_.outstanding()) + " leases were never released");
  for (const auto& [stream, memory] : live_) {
    require(std::ranges::all_of(memory.out, [](std::uint32_t out) { return out == 0; }),
            name() + ": memory of its live stream " + std::to_string(stream) + " was never released");
  }
}

}  // namespace crossdock::simulation
