#include <stdlib.h>
#include <unistd.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include "device/region_address.h"
#include "suite.h"
#include "transport/shm.h"

namespace crossdock::transport::conformance {
namespace {

Implementation shm() {
  Implementation out;
  out.name = "shm";
  out.base = [](std::uint16_t number, const device::Region&) { return device::make_address(number, 0); };
  out.takes_largest_at_once = false;
  out.real_credentials = true;
  out.connect = [](const Wishes& wishes) {
    ShmOptions options;
    options.max_message = options.max_request = wishes.max_message;
    if (wishes.small_queue) options.ring_bytes = 64 << 10;
    char folder[] = "/tmp/crossdock-conformance-XXXXXX";
    if (::mkdtemp(folder) == nullptr) throw std::runtime_error("mkdtemp");
    const std::string path = std::string(folder) + "/s.sock";
    Pair pair;
    {
      const auto listener = shm_listen(path, wishes.agreement.want_data, *wishes.agreement.free_data, options, nullptr);
      std::exception_ptr failure;
      std::thread connecting([&] {
        try {
          pair.second = shm_connect(path, options, kPatienceMs, nullptr);
        } catch (...) {
          failure = std::current_exception();
        }
      });
      pair.first = accept_one(*listener);
      connecting.join();
      if (failure) std::rethrow_exception(failure);
    }
    ::rmdir(folder);
    return pair;
  };
  return out;
}

INSTANTIATE_TEST_SUITE_P(Shm, TransportConformance, ::testing::Values(shm()), implementation_name);

}  // namespace
}  // namespace crossdock::transport::conformance
