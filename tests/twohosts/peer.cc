// For test_cable.py: a server or a client that sets the transports' limits for vanished peers. Python sets none.
#include <chrono>
#include <iostream>
#include <mutex>
#include <string>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"

namespace {

using namespace crossdock;

constexpr std::int64_t kRows = 2'000'000;  // One body of 37 MB.

/// Serves until its input ends. Prints its URI, then each line of its log.
int serve(const std::string& uri, const session::TransportOptions& transports) {
  std::mutex mutex;
  session::ServerOptions options;
  options.uris = {uri};
  options.transports = session::make_transports(transports);
  options.log = [&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    std::cout << line << std::endl;
  };
  session::Server server(options);
  server.publish("large", session::Source::factory([] { return testing::number_stream(1, kRows); }));
  std::cout << server.uri() << std::endl;
  std::string line;
  std::getline(std::cin, line);
  server.close();
  return 0;
}

/// Prints the rows of each batch, and the error that ends the stream.
int get(const std::string& uri, const std::string& name, const session::TransportOptions& transports) {
  try {
    session::Client client(uri, {.transports = session::make_transports(transports)});
    const auto reader = client.get(name);
    std::cout << "schema" << std::endl;
    while (const auto batch = reader->next()) std::cout << batch->num_rows << std::endl;
    std::cout << "end" << std::endl;
  } catch (const Error& error) {
    std::cout << error_name(error.code()) << ": " << error.what() << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  // Probes find a vanished peer if nothing was sent that it didn't acknowledge; the time limit finds it otherwise.
  const session::TransportOptions transports{
      .tcp = {.keepalive = std::chrono::seconds(1), .user_timeout = std::chrono::milliseconds(2000)},
      .ucx = {.keepalive = std::chrono::seconds(1), .user_timeout = std::chrono::milliseconds(2000)}};
  if (words.size() == 3 && words[0] == "get") return get(words[1], words[2], transports);
  if (words.size() == 2 && words[0] == "serve") return serve(words[1], transports);
  std::cerr << "usage: twohosts_peer get URI NAME\n"
               "       twohosts_peer serve URI\n";
  return 2;
}
