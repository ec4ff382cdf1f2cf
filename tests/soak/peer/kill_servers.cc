#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "soak/peer/children.h"
#include "soak/peer/consume.h"
#include "soak/peer/roles.h"

namespace crossdock::soak {
namespace {

constexpr std::size_t kConsumers = 3;
constexpr auto kPatience = std::chrono::seconds(60);

// Serves until it is killed, or until there is a file "stop".
int serve_until_stopped(const std::string& uri, const std::filesystem::path& folder, Progress* progress) {
  progress->stage = Stage::kStarted;
  const auto server = make_server({uri}, "");
  // Under its name only when it is whole.
  std::ofstream(folder / "uri.new") << server->uri() << std::flush;
  std::filesystem::rename(folder / "uri.new", folder / "uri");
  progress->stage = Stage::kConnected;
  while (!std::filesystem::exists(folder / "stop")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server->close();
  return 0;
}

// Consumes from whichever server is there, until there is a file "leave". The errors of a server that dies are no
// finding; a table that is short, or changes, is.
int consume_until_told(const std::filesystem::path& folder, std::uint64_t seed, Progress* progress) {
  std::mt19937_64 random(seed);
  while (!std::filesystem::exists(folder / "leave")) {
    std::string uri;
    std::ifstream(folder / "uri") >> uri;
    try {
      if (uri.empty()) continue;
      session::ClientOptions options;
      options.timeout = std::chrono::milliseconds(20'000);
      session::Client client(uri, options);
      while (!std::filesystem::exists(folder / "leave")) {
        if (random() % 4 == 0) {
          consume_on_two_threads(client, random, progress);
        } else {
          consume_once(client, random, progress);
        }
      }
    } catch (const TimeoutError&) {
      throw BrokenPromise("a client waited 20 s for a server that had died");
    } catch (const Error&) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));  // nobody listens until the next server comes
    }
  }
  return 0;
}

}  // namespace

int kill_servers(const std::string& uri, const std::string& folder_name, const Drive& drive) {
  const std::filesystem::path folder = folder_name;
  std::mt19937_64 random(drive.seed);
  const Shared<Progress> progress(kConsumers + 1);
  Progress& of_server = progress[kConsumers];
  Findings findings;
  std::vector<pid_t> consumers;
  for (std::size_t i = 0; i < kConsumers; ++i) {
    const std::uint64_t seed = random();
    consumers.push_back(start_child([&] { return consume_until_told(folder, seed, &progress[i]); }));
  }
  std::uint64_t kills = 0;
  const auto tables = [&] {
    std::uint64_t whole = 0;
    for (std::size_t i = 0; i < kConsumers; ++i) whole += progress[i].whole;
    return whole;
  };
  const Clock::time_point end = Clock::now() + drive.time;
  do {
    of_server.stage = Stage::kNothing;
    const std::uint64_t before = tables();
    const pid_t server = start_child([&] { return serve_until_stopped(uri, folder, &of_server); });
    const auto stage = [&] { return tables() > before ? Stage::kWorks : of_server.stage.load(); };
    if (!wait_for_stage(server, random_stage(random), stage)) findings.add("a server gets no further");
    std::this_thread::sleep_for(random_life(random));
    int status = 0;
    if (kill_child(server, &status)) {
      ++kills;
    } else {
      findings.add("a server ended with " + describe_status(status));
    }
  } while (Clock::now() < end);
  // The next one serves everybody who saw the others die.
  const pid_t last = start_child([&] { return serve_until_stopped(uri, folder, &of_server); });
  std::vector<std::uint64_t> seen;
  for (std::size_t i = 0; i < kConsumers; ++i) seen.push_back(progress[i].whole);
  const Clock::time_point patience = Clock::now() + kPatience;
  for (std::size_t i = 0; i < kConsumers; ++i) {
    while (progress[i].whole < seen[i] + 2 && Clock::now() < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (progress[i].whole < seen[i] + 2) findings.add("a client gets no table from the server that came after");
  }
  std::ofstream(folder / "leave") << std::flush;
  std::uint64_t streams = 0, whole = 0, failed = 0;
  for (std::size_t i = 0; i < kConsumers; ++i) {
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(consumers[i], &status, WNOHANG)) == 0 && Clock::now() < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (ended == 0) {
      findings.add("a client hangs");
      kill_child(consumers[i], &status);
    } else if (status != 0) {
      findings.add("a client ended with " + describe_status(status));
    }
    streams += progress[i].attempts;
    whole += progress[i].whole;
    failed += progress[i].failed;
  }
  std::ofstream(folder / "stop") << std::flush;
  const int status = wait_for(last);
  if (status != 0) findings.add("the last server ended with " + describe_status(status));
  for (const char* name : {"uri", "uri.new", "stop", "leave"}) std::filesystem::remove(folder / name);
  std::cout << "{\"kills\": " << kills << ", \"streams\": " << streams << ", \"whole_tables\": " << whole
            << ", \"truncations\": " << failed << ", " << findings.json() << "}\n";
  return 0;
}

}  // namespace crossdock::soak
