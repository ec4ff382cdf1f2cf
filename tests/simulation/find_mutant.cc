#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "world.h"

/// Linked with one source of src/dissociated that has a deliberate bug (a mutant): `find_mutant SEEDS` fails unless one
/// of the first SEEDS worlds shows it.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s SEEDS\n", argv[0]);
    return 2;
  }
  const std::uint64_t seeds = std::strtoull(argv[1], nullptr, 10);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const crossdock::simulation::Outcome run = crossdock::simulation::run_world(seed);
    if (run.failure.empty()) continue;
    std::printf("found by seed %llu: %s\n", static_cast<unsigned long long>(seed), run.failure.c_str());
    return 0;
  }
  std::fprintf(stderr, "the mutant went unseen in %llu worlds\n", static_cast<unsigned long long>(seeds));
  return 1;
}
