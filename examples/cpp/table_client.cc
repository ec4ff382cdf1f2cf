// Reads the table of table_server.cc, in another process: ./table_client URI
//
// The values are read where the server has them: nothing is copied.
#include <crossdock/crossdock.hpp>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <string_view>

namespace xd = crossdock;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: table_client URI, where table_server prints the URI\n";
    return 2;
  }
  try {
    using namespace std::chrono;
    xd::session::Client client(argv[1], {.timeout = 10s});
    for (const xd::session::CatalogEntry& entry : client.list()) {
      std::cout << entry.name << ": " << entry.rows << " rows\n";
    }
    for (const xd::array::RecordBatch& batch : client.get("weather")) {
      const auto station = batch.column<xd::array::Dictionary<std::string_view>>("station");
      const auto at = batch.column<sys_time<seconds>>("at");
      const auto celsius = batch.column<double>("celsius");
      double sum = 0;
      for (std::int64_t row = 0; row < batch.num_rows; ++row) {
        const hh_mm_ss time(*at[row] - time_point_cast<days>(*at[row]));
        std::cout << *station[row] << ' ' << time.hours().count() << ':' << time.minutes().count() << ' ';
        if (const auto value = celsius[row]) {
          std::cout << *value << '\n';
          sum += *value;
        } else {
          std::cout << "unknown\n";
        }
      }
      std::cout << "mean " << sum / static_cast<double>(batch.num_rows - celsius.null_count()) << '\n';
    }
    return 0;
  } catch (const xd::Error& error) {
    std::cerr << xd::error_name(error.code()) << ": " << error.what() << '\n';
    return 1;
  }
}
