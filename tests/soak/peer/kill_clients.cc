#include <iostream>
#include <thread>

#include "soak/peer/children.h"
#include "soak/peer/consume.h"
#include "soak/peer/roles.h"

namespace crossdock::soak {
namespace {

constexpr std::size_t kAtOnce = 4;

// Consumes until it is killed: its server lives, so that every error is a finding.
int consume_for_ever(const std::string& uri, std::uint64_t seed, Progress* progress) {
  std::mt19937_64 random(seed);
  for (;;) {
    session::ClientOptions options;
    options.timeout_ms = -1;
    session::Client client(uri, options);
    for (int streams = 1 + static_cast<int>(random() % 8); streams > 0; --streams) {
      if (random() % 4 == 0) {
        consume_on_two_threads(client, random, progress);
      } else {
        consume_once(client, random, progress);
      }
    }
  }
}

struct Victim {
  pid_t pid = 0;
  Clock::time_point dies;
};

}  // namespace

int kill_clients(const std::string& uri, const Drive& drive) {
  std::mt19937_64 random(drive.seed);
  const Shared<Progress> progress(2);
  Progress& of_victims = progress[0];
  Progress& of_witness = progress[1];
  Findings findings;
  const pid_t witness = start_child([&] { return consume_for_ever(uri, drive.seed, &of_witness); });
  const auto start = [&] {
    const std::uint64_t seed = random();
    const pid_t pid = start_child([&] { return consume_for_ever(uri, seed, &of_victims); });
    return Victim{pid, Clock::now() + random_life(random)};
  };
  std::vector<Victim> victims;
  for (std::size_t i = 0; i < kAtOnce; ++i) victims.push_back(start());
  std::uint64_t kills = 0;
  const auto kill = [&](Victim& victim) {
    int status = 0;
    if (kill_child(victim.pid, &status)) {
      ++kills;
    } else {
      findings.add("a client of a server that lives ended with " + describe_status(status));
    }
  };
  const Clock::time_point end = Clock::now() + drive.time;
  do {
    Victim* next = &victims.front();
    for (Victim& victim : victims) {
      if (victim.dies < next->dies) next = &victim;
    }
    std::this_thread::sleep_until(next->dies);
    kill(*next);
    *next = start();
  } while (Clock::now() < end);
  for (Victim& victim : victims) kill(victim);
  // Once more around, now that nobody dies beside it.
  const std::uint64_t seen = of_witness.whole;
  const Clock::time_point patience = Clock::now() + std::chrono::seconds(60);
  while (of_witness.whole < seen + 2 && Clock::now() < patience && still_runs(witness)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (of_witness.whole < seen + 2) findings.add("the client that nobody killed reads no table any more");
  int status = 0;
  if (!kill_child(witness, &status)) {
    findings.add("the client that nobody killed ended with " + describe_status(status));
  }
  std::cout << "{\"kills\": " << kills << ", \"streams\": " << of_victims.attempts + of_witness.attempts
            << ", \"whole_tables\": " << of_victims.whole + of_witness.whole << ", " << findings.json() << "}\n";
  return 0;
}

}  // namespace crossdock::soak
