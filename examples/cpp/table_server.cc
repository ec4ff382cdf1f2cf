// Serves a table to other processes of this machine, until Enter is pressed:
//
//     ./table_server              prints the URI
//     ./table_server shm:weather  at a name that stays the same
//
// table_client.cc reads it, and so does any other client: `crossdock get URI weather` shows it.
#include <crossdock/crossdock.hpp>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xd = crossdock;

namespace {

using Instant = std::chrono::sys_time<std::chrono::seconds>;

struct Reading {
  std::string_view station;
  Instant at;
  std::optional<double> celsius;
};

// Builds the table in an arena: publishing it copies nothing.
xd::array::RecordBatch table_of(const std::vector<Reading>& readings) {
  xd::array::BatchBuilder table(xd::session::Runtime::default_runtime()->make_arena());
  auto& station = table.add<xd::array::Dictionary<std::string_view>>("station");
  auto& at = table.add<Instant>("at");
  auto& celsius = table.add<double>("celsius");
  table.reserve(static_cast<std::int64_t>(readings.size()));
  for (const Reading& reading : readings) {
    station.append(reading.station);
    at.append(reading.at);
    celsius.append(reading.celsius);
  }
  return table.finish();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    using namespace std::chrono_literals;
    const Instant noon = std::chrono::sys_days(2026y / std::chrono::November / 28) + 12h;
    const std::vector<Reading> readings{
        {"JFK", noon, 11.5}, {"LGA", noon, std::nullopt}, {"EWR", noon + 30min, 10.25}, {"JFK", noon + 30min, 12.0}};

    xd::session::ServerOptions options;
    if (argc > 1) options.uris = {argv[1]};
    xd::session::Server server(options);
    server.publish("weather", xd::session::Source::table(table_of(readings)));
    std::cout << server.uri() << std::endl;  // another process may wait for this line
    std::string line;
    std::getline(std::cin, line);
    if (!server.drain(10s)) std::cerr << "a consumer is still reading\n";
    return 0;
  } catch (const xd::Error& error) {
    std::cerr << xd::error_name(error.code()) << ": " << error.what() << '\n';
    return 1;
  }
}
