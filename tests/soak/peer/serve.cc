#include <dirent.h>

#include <fstream>
#include <iostream>

#include "crossdock/session/transports.h"
#include "soak/peer/consume.h"
#include "soak/peer/roles.h"
#include "support/batches.h"
#include "transport/registry.h"

namespace crossdock::soak {
namespace {

int entries_of(const char* path) {
  DIR* const folder = ::opendir(path);
  int count = 0;
  while (const dirent* const entry = ::readdir(folder)) count += entry->d_name[0] != '.';
  ::closedir(folder);
  return count;
}

int shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:") != line.npos;
  return count;
}

void print_statistics(const session::Server& server) {
  const session::ServerStats stats = server.stats();
  std::uint64_t leases = 0;
  for (const session::ConsumerStats& consumer : stats.consumers) leases += consumer.leases;
  std::cout << "{\"consumers\": " << stats.consumers.size() << ", \"leases\": " << leases
            << ", \"connections\": " << stats.accepted_connections << ", \"protocol_errors\": " << stats.protocol_errors
            << ", \"descriptors\": " << entries_of("/proc/self/fd") - 1  // not the listing's own
            << ", \"mappings\": " << shared_mappings() << ", \"threads\": " << entries_of("/proc/self/task") << "}"
            << std::endl;
}

}  // namespace

std::unique_ptr<session::Server> make_server(const std::vector<std::string>& uris, const std::string& token) {
  session::ServerOptions options;
  options.uris = uris;
  options.window = 16;
  options.lease_limit = 1 << 20;
  options.transports = session::make_transports({.tcp = {.token = token}});
  auto server = std::make_unique<session::Server>(options);
  server->publish("table", session::Source::table(testing::number_stream(kBatches, kRows)));
  server->publish("live", session::Source::factory([] { return testing::number_stream(kBatches, kRows); }));
  return server;
}

int serve(const std::vector<std::string>& uris, const std::string& token) {
  const auto server = make_server(uris, token);
  for (const std::string& uri : server->uris()) std::cout << uri << '\n';
  std::cout << std::endl;
  for (std::string line; std::getline(std::cin, line);) print_statistics(*server);
  server->close();
  return 0;
}

}  // namespace crossdock::soak
