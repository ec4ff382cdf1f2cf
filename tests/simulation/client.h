#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dissociated/receiver.h"
#include "environment.h"
#include "reads.h"

namespace crossdock::simulation {

/// What a client does wrong on purpose, once.
enum class Offence : std::uint8_t {
  kNone,
  kForgedAddress,   ///< Frees what nobody was ever sent.
  kForeignAddress,  ///< Frees what another consumer holds.
  kRepeatedFree,    ///< Frees what it holds more often than it was sent.
  kPartOfAddress,
  kUnknownTag,
  kBodysTag,  ///< want_data with a bit of the top byte changed: no mask holds for requests.
  kSecondRequest,
  kUntagged,
};
inline constexpr int kOffences = 9;

struct Habits {
  bool counts = true;  ///< Frees each address as often as it was sent; else each distinct one once, after the end.
  bool frees = true;   ///< False: frees nothing before it goes.
  enum class Pace : std::uint8_t { kEager, kSlow, kStuck } pace = Pace::kEager;
  std::uint32_t stuck_after = 0;          ///< Messages that a stuck one takes before it stops reading.
  std::uint32_t streams = 1;              ///< How many it asks for, one after another.
  std::optional<Reads::Options> reads{};  ///< It reads tables that come by address; else it maps all memory.
  bool may_cancel = false;
  bool reuses_after_error = false;  ///< Its connection keeps everything in order.
  bool may_leave = false;           ///< Goes away at some time, whatever is under way.
  Offence offence = Offence::kNone;
};

/// The client's end of one consumer, over one connection or two: drives the Receiver under test as a client does, and
/// holds every answer against what has arrived.
class Client {
 public:
  using Choose = std::function<std::shared_ptr<const StreamPlan>(Random&)>;
  /// An address that another consumer holds; 0 if nobody does.
  using Foreign = std::function<std::uint64_t()>;

  /// `wires`: one that carries both, or metadata and then data. `choose` picks what to ask for next.
  Client(const Habits& habits, Environment& environment, std::vector<Wire*> wires, Books& books, Random random,
         Choose choose, Foreign foreign);

  /// True if anything happened. Throws Failure.
  bool turn();
  /// Nothing moves any more: throws Failure if this one still waits for what it has a right to.
  void check_at_rest() const;
  void leave();
  /// Has everything that it asked for, and freed what it wanted to free.
  bool content() const;
  /// When its next read ends; nothing if none is under way.
  std::optional<std::uint64_t> next_read() const { return reads_ ? reads_->next_end() : std::nullopt; }

 private:
  struct Arrived {
    bool metadata = false;
    bool body = false;
    const std::byte* owned = nullptr;  ///< Where the body lies that the Receiver was given with its owner.
  };
  enum class Due : std::uint8_t { kNothing, kMessage, kEnd, kError, kTruncated };

  bool receive();
  void feed(const Packet& packet);
  void note_losses();
  Due due() const;
  bool take();
  bool take_item();
  bool take_read();
  void check_message(const dissociated::Receiver::Item& item);
  void deliver(const StreamRecord::Message& message);
  void finish(Due how);
  void ask();
  bool release();
  void return_addresses(std::vector<std::uint64_t> addresses);
  void free(std::vector<std::uint64_t> addresses);
  void cancel();
  bool offend();
  std::string name() const { return "consumer " + std::to_string(books_.consumer); }

  Habits habits_;
  Environment& environment_;
  std::vector<Wire*> wires_;
  Books& books_;
  Random random_;
  Choose choose_;
  Foreign foreign_;
  dissociated::Receiver receiver_;

  bool gone_ = false;
  bool rogue_ = false;  // it has committed its offence: nobody owes it anything
  std::uint32_t asked_ = 0;
  bool under_way_ = false;
  bool cancelled_ = false;
  bool lost_ = false;
  std::shared_ptr<StreamRecord> record_;
  std::size_t position_ = 0;  // of the message due next
  std::map<std::size_t, Arrived> arrived_;
  std::optional<std::size_t> end_;
  std::optional<std::size_t> error_;  // the first one's position: what comes later at or past it is nobody's
  std::uint32_t taken_ = 0;
  std::vector<std::vector<std::uint64_t>> held_;  // the addresses of each body that came by address
  std::unique_ptr<Reads> reads_;                  // of the stream under way
  bool truncated_ = false;                        // and what was read comes first
};

}  // namespace crossdock::simulation
