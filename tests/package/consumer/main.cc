// A user's program, with the installed headers and library only: serves a table, gets it back, and catches an error by
// its class. With the argument "flight" it has a Flight server, too. Exits with 1 where they don't work together.
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string_view>

#include "crossdock/array/stream.h"
#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "crossdock/version.h"

namespace xd = crossdock;

namespace {

constexpr std::int64_t kRows = 1000;

// One batch of one int64 column, built in an arena: publishing it copies nothing.
std::unique_ptr<xd::array::BatchStream> squares_in(xd::device::Arena& arena) {
  auto* values = reinterpret_cast<std::int64_t*>(arena.allocate(kRows * sizeof(std::int64_t)));
  for (std::int64_t i = 0; i < kRows; ++i) values[i] = i * i;
  xd::array::Field field;
  field.name = "square";
  field.type.id = xd::array::TypeId::kInt64;
  xd::array::RecordBatch batch;
  batch.schema = std::make_shared<const xd::array::Schema>(std::vector<xd::array::Field>{field});
  batch.num_rows = kRows;
  batch.nodes = {{kRows, 0, 0}};
  batch.buffers = {{nullptr, 0}, {values, kRows * 8}};
  return xd::array::make_stream(batch.schema, {batch});
}

}  // namespace

int main(int argc, char** argv) {
  std::cout << "crossdock " << xd::version() << '\n';
  if (xd::version() != CROSSDOCK_VERSION) {
    std::cerr << "the headers are of " << CROSSDOCK_VERSION << '\n';
    return 1;
  }
  xd::session::ServerOptions options;
  if (argc > 1 && std::string_view(argv[1]) == "flight") options.flight.uri = "grpc://127.0.0.1:0";
  xd::session::Server server(options);
  if (!options.flight.uri.empty()) std::cout << "Flight at " << server.flight_uri() << '\n';
  const auto arena = xd::session::Runtime::default_runtime()->make_arena();
  server.publish("squares", xd::session::Source::table(squares_in(*arena)));

  xd::session::Client client(server.uri());
  const auto batch = client.get("squares")->next();
  const auto* squares = static_cast<const std::int64_t*>(batch->buffers[1].data);
  if (batch->num_rows != kRows || squares[31] != 961 || server.stats().sources.at(0).bytes_copied != 0) {
    std::cerr << "the table came wrong, or was copied\n";
    return 1;
  }
  try {
    client.get("cubes");
  } catch (const xd::NotFoundError& error) {
    std::cout << error.what() << '\n';
    return 0;
  }
  std::cerr << "a name that isn't there was given\n";
  return 1;
}
