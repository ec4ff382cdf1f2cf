#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "world.h"

/// Seeds 1 to 400 by default. CROSSDOCK_SIM_SEEDS says how many, CROSSDOCK_SIM_FIRST from which one on, and
/// CROSSDOCK_SIM_SEED replays one alone.
namespace crossdock::simulation {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

TEST(Simulation, EveryWorldDoesWhatTheModelSays) {
  const bool one = std::getenv("CROSSDOCK_SIM_SEED") != nullptr;
  const std::uint64_t first =
      one ? from_environment("CROSSDOCK_SIM_SEED", 1) : from_environment("CROSSDOCK_SIM_FIRST", 1);
  const std::uint64_t count = one ? 1 : from_environment("CROSSDOCK_SIM_SEEDS", 400);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Outcome run = run_world(seed);
    ASSERT_TRUE(run.failure.empty()) << run.failure << "\nreplay it: CROSSDOCK_SIM_SEED=" << seed;
  }
  std::printf("%s worlds from %s on\n", std::to_string(count).c_str(), std::to_string(first).c_str());
}

TEST(Simulation, ALossAtAnyStepIsTruncationAndNothingWorse) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const std::uint64_t steps = run_world(seed).steps;
    for (std::uint64_t step = 0; step < steps; step += seed == 1 ? 1 : 7) {
      const Outcome run = run_world(seed, step);
      ASSERT_TRUE(run.failure.empty()) << run.failure << "\nseed " << seed << ", cut off at step " << step;
    }
  }
}

TEST(Simulation, ASeedReplaysExactly) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome once = run_world(seed);
    const Outcome again = run_world(seed);
    EXPECT_EQ(once.digest, again.digest);
    EXPECT_EQ(once.steps, again.steps);
    EXPECT_NE(once.digest, run_world(seed + 1).digest);
  }
}

}  // namespace
}  // namespace crossdock::simulation
