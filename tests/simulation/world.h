#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace crossdock::simulation {

struct Outcome {
  std::uint64_t steps = 0;   ///< Turns taken before the world came to rest.
  std::uint64_t digest = 0;  ///< Of all that happened: equal runs have equal ones.
  std::size_t consumers = 0;
  std::string
      failure;  ///< Empty: everything was as the model says. Else what wasn't, and the last things that happened.
};

/// One made-up world, all of it drawn from the seed: tables and live streams, one to five consumers of any kind and
/// behaviour, each over its own network. No thread, clock or socket: the same seed gives the same run on every machine.
/// `cut_at`: beside what the seed says, the first consumer's connection is lost at this step.
Outcome run_world(std::uint64_t seed, std::optional<std::uint64_t> cut_at = std::nullopt);

}  // namespace crossdock::simulation
