// Times the signing and the checking of tickets. Prints JSON: nanoseconds that one of each took, the medians of
// stretches of 1,000.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "flight/ticket.h"

namespace crossdock::bench {
namespace {

template <typename Call>
double median_ns(Call call) {
  using Clock = std::chrono::steady_clock;
  constexpr int kStretch = 1000;
  std::vector<double> stretches(31);
  for (double& ns : stretches) {
    const auto start = Clock::now();
    for (int i = 0; i < kStretch; ++i) call();
    ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kStretch;
  }
  std::ranges::nth_element(stretches, stretches.begin() + 15);
  return stretches[15];
}

int run() {
  using Purpose = flight::TicketKeys::Purpose;
  const flight::TicketKeys keys;
  const std::string ticket = keys.sign(Purpose::kRead, "a table's name", 300);
  std::size_t total = 0;
  const double sign = median_ns([&] { total += keys.sign(Purpose::kRead, "a table's name", 300).size(); });
  const double check = median_ns([&] { total += keys.check(Purpose::kRead, ticket).size(); });
  std::printf("{\"sign\": %.1f, \"check\": %.1f, \"bytes\": %zu}\n", sign, check, total);
  return 0;
}

}  // namespace
}  // namespace crossdock::bench

int main() { return crossdock::bench::run(); }
