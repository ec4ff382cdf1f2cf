// For test_differential.py: at each line of its input, takes an Arrow stream file through a server and a client of this
// process, over the in-process transport, which Python can't reach, and writes what came out. Answers "done", or what
// went wrong.
#include <iostream>
#include <string>
#include <string_view>

#include "crossdock/session/client.h"
#include "crossdock/session/file.h"
#include "crossdock/session/server.h"
#include "transport/memory.h"

namespace {

using namespace crossdock;

void take_through(session::Server& server, session::Client& client, const std::string& from, const std::string& to,
                  bool live) {
  auto source = session::open_file(from);
  server.publish("t", live ? session::Source::live(std::move(source)) : session::Source::table(std::move(source)));
  session::GetOptions options;
  options.validation = array::Validation::kFull;
  const auto reader = client.get("t", options);
  session::write_file(*reader, to, {.form = ipc::ContainerForm::kStream});
  server.withdraw("t");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: through_memory FROM TO table|live map|read|message\n";
    return 2;
  }
  auto transports = std::make_shared<transport::TransportRegistry>();
  const std::string_view way = argv[4];
  transport::MemoryOptions options;
  options.ways = way == "map"    ? transport::Way::kMap | transport::Way::kMessage
                 : way == "read" ? transport::Way::kRead | transport::Way::kMessage
                                 : transport::Way::kMessage;
  options.reads = [](std::uint64_t n) { return static_cast<int>(n * 7 % 5); };  // out of order
  transports->add(transport::make_memory_transport(options));
  session::ServerOptions served;
  served.uris = {"memory:"};
  served.transports = transports;
  session::Server server(served);
  session::ClientOptions connected;
  connected.transports = transports;
  if (way == "read") connected.way = transport::Way::kRead;
  session::Client client(server.uri(), connected);
  for (std::string line; std::getline(std::cin, line);) {
    try {
      take_through(server, client, argv[1], argv[2], std::string_view(argv[3]) == "live");
      std::cout << "done" << std::endl;
    } catch (const std::exception& error) {
      std::cout << error.what() << std::endl;
    }
  }
}
