#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <string>

#include "crossdock/session/client.h"

/// The tables that every soak server publishes, and what each read of them must give.
namespace crossdock::soak {

constexpr int kBatches = 40;
constexpr std::int64_t kRows = 50;

/// A promise that does not hold: a short table, other values, a batch that changed.
class BrokenPromise : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How far the life of a process that will be killed has come: a client that has a connection, then a whole stream; a
/// server that listens, then one that has served a stream.
enum class Stage : std::uint32_t { kNothing, kStarted, kConnected, kWorks };

/// What a consumer or server did so far. Lives in memory that the driver shares with it.
struct Progress {
  std::atomic<Stage> stage;
  std::atomic<std::uint64_t> attempts;  ///< Streams that were asked for.
  std::atomic<std::uint64_t> whole;     ///< Streams that were read to their end.
  std::atomic<std::uint64_t> failed;    ///< Streams that ended with an error.
};

/// Reads one stream of `client`, or lists its catalog, in a way that `random` chooses: blocking or spinning, holding
/// batches or not, to the end or not. Checks each value, also of batches that outlive the stream's error.
/// Throws BrokenPromise, and what the client throws.
void consume_once(session::Client& client, std::mt19937_64& random, Progress* progress);

/// Two threads of `client` call consume_once() at the same time. Throws what the first that failed threw.
void consume_on_two_threads(session::Client& client, std::mt19937_64& random, Progress* progress);

}  // namespace crossdock::soak
