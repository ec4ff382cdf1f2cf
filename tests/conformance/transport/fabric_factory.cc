#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include "suite.h"
#include "transport/fabric.h"

namespace crossdock::transport::conformance {
namespace {

Implementation fabric(std::string name, std::string address, std::string token) {
  Implementation out;
  out.name = std::move(name);
  out.takes_largest_at_once = false;
  out.same_user = false;
  out.network = true;
  out.regions_both_ways = false;
  out.base = [](std::uint16_t number, const device::Region&) { return std::uint64_t{number} << 48; };
  out.unavailable = [] {
    const FabricReport report = find_fabric();
    std::string why;
    for (const std::string& line : report.tried) why += line + "; ";
    return report.found ? std::string() : "no libfabric: " + why;
  };
  out.connect = [address, token](const Wishes& wishes) {
    FabricOptions options;
    options.max_message = options.max_request = wishes.max_message;
    options.token = token;
    if (wishes.small_queue) {
      options.queue_bytes = 0;
      options.send_buffer = options.receive_buffer = 256 << 10;
    }
    const auto listener =
        fabric_listen(address, wishes.agreement.want_data, *wishes.agreement.free_data, options, nullptr);
    const std::string uri = listener->uri();
    Pair pair;
    std::exception_ptr failure;
    std::thread connecting([&] {
      try {
        pair.second = fabric_connect(uri.substr(7), options, kPatienceMs, nullptr);
      } catch (...) {
        failure = std::current_exception();
      }
    });
    pair.first = accept_one(*listener);
    connecting.join();
    if (failure) std::rethrow_exception(failure);
    return pair;
  };
  return out;
}

INSTANTIATE_TEST_SUITE_P(Fabric, TransportConformance,
                         ::testing::Values(fabric("fabric", "", ""),
                                           fabric("fabric6_token", "//[::1]:0", "a shared secret")),
                         implementation_name);

}  // namespace
}  // namespace crossdock::transport::conformance
