#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/session/server.h"

/// The parts that soak_peer plays. Each returns the program's exit code; a driver prints one line of JSON with its
/// counts and its findings.
namespace crossdock::soak {

struct Drive {
  std::uint64_t seed = 0;
  std::chrono::milliseconds time{0};
};

/// A server with the tables of consume.h, "table" and "live", at these URIs; with a token if it is not empty.
std::unique_ptr<session::Server> make_server(const std::vector<std::string>& uris, const std::string& token);

/// Serves until standard input ends. Prints each URI, then an empty line; for each line that it is sent, one line of
/// JSON: its statistics, and how many descriptors, mappings of shared memory and threads this process has.
int serve(const std::vector<std::string>& uris, const std::string& token);

/// Starts clients of `uri` and kills each at a moment that the seed chooses, while another client, which nobody
/// kills, must get every table whole.
int kill_clients(const std::string& uri, const Drive& drive);

/// Starts a server of `uri` again and again and kills it at a moment that the seed chooses, while clients connect,
/// read, and hold what they have. Leaves nothing in `folder`, where the servers write their URIs.
int kill_servers(const std::string& uri, const std::string& folder, const Drive& drive);

}  // namespace crossdock::soak
