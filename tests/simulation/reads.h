#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dissociated/read_queue.h"
#include "environment.h"

namespace crossdock::simulation {

/// The reads of one stream: drives the ReadQueue under test as a client does, and checks each of its answers against
/// what has been read by then. A read takes some time and may fail; the reads of a client end in any order.
class Reads {
 public:
  struct Options {
    std::uint64_t read_ahead = 0;
    std::uint32_t most_under_way = 1;
    std::uint32_t most_delay = 1;
    std::uint32_t fails_one_in = 0;  ///< 0: none fails.
  };
  using Free = std::function<void(const std::vector<std::uint64_t>&)>;
  using Ending = dissociated::ReadQueue::Ending;
  enum class Due : std::uint8_t { kNothing, kBody, kEnd, kError, kFailed };

  /// `free` sends addresses back.
  Reads(const Options& options, Environment& environment, Books& books, Random random, Free free);
  ~Reads();

  bool empty() const noexcept { return queue_.empty(); }
  bool has_room() const noexcept { return queue_.has_room(); }
  /// Appends the body at a position of the stream. `addresses` of the memory that it is read from; none: it needs no
  /// read.
  void push(std::size_t position, std::vector<std::uint64_t> addresses, std::uint64_t bytes);
  void end(Ending ending) { queue_.end(ending_ = ending); }
  bool ended() const noexcept { return ending_ != Ending::kNone; }
  /// Says what comes next. Throws Failure.
  Due next();
  /// False if a read was under way. Throws Failure.
  bool drop();
  /// The connection is lost: no read ends well any more.
  void lose();
  /// When the next read ends; nothing if none is under way.
  std::optional<std::uint64_t> next_end() const;

 private:
  struct Record;
  class Body;
  Due due_now() const;
  void check(const std::string& where) const;
  std::string name() const { return "consumer " + std::to_string(books_.consumer); }

  Options options_;
  Environment& environment_;
  Books& books_;
  Random random_;
  Free free_;
  bool lost_ = false;
  Ending ending_ = Ending::kNone;
  std::deque<std::shared_ptr<Record>> queued_;  // what the queue must hold
  dissociated::ReadQueue queue_;
};

}  // namespace crossdock::simulation
