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
  progress->stage = Stage::kStarted;
  for (;;) {
    session::ClientOptions options;
    options.timeout.reset();
    session::Client client(uri, options);
    if (progress->stage < Stage::kConnected) progress->stage = Stage::kConnected;
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
  Progress* progress = nullptr;
  Stage stage = Stage::kStarted;     ///< Comes so far, and
  std::chrono::microseconds life{};  ///< lives so long from then on at least.
};

}  // namespace

int kill_clients(const std::string& uri, const Drive& drive) {
  std::mt19937_64 random(drive.seed);
  const Shared<Progress> progress(1 + kAtOnce);
  Progress& of_witness = progress[kAtOnce];
  Findings findings;
  const pid_t witness = start_child([&] { return consume_for_ever(uri, drive.seed, &of_witness); });
  std::vector<Victim> victims(kAtOnce);
  const auto start = [&](std::size_t slot) {
    const std::uint64_t seed = random();
    Progress* const its = &progress[slot];
    its->stage = Stage::kNothing;
    const pid_t pid = start_child([&] { return consume_for_ever(uri, seed, its); });
    victims[slot] = {pid, its, random_stage(random), random_life(random)};
  };
  for (std::size_t slot = 0; slot < kAtOnce; ++slot) start(slot);
  std::uint64_t kills = 0;
  const auto kill = [&](Victim& victim) {
    if (!wait_for_stage(victim.pid, victim.stage, [&] { return victim.progress->stage.load(); })) {
      findings.add("a client of a server that lives gets no further");
    }
    std::this_thread::sleep_for(victim.life);
    int status = 0;
    if (kill_child(victim.pid, &status)) {
      ++kills;
    } else {
      findings.add("a client of a server that lives ended with " + describe_status(status));
    }
  };
  const Clock::time_point end = Clock::now() + drive.time;
  std::size_t next = 0;
  do {
    kill(victims[next]);
    start(next);
    next = (next + 1) % kAtOnce;
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
  std::uint64_t streams = 0, whole = 0;
  for (std::size_t slot = 0; slot < kAtOnce; ++slot) {
    streams += progress[slot].attempts;
    whole += progress[slot].whole;
  }
  std::cout << "{\"kills\": " << kills << ", \"streams\": " << streams << ", \"whole_tables\": " << whole
            << ", \"whole_tables_beside_them\": " << of_witness.whole << ", " << findings.json() << "}\n";
  return 0;
}

}  // namespace crossdock::soak
