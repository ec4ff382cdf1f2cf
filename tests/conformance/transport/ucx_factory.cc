#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include "suite.h"
#include "transport/ucx.h"

namespace crossdock::transport::conformance {
namespace {

Implementation ucx(std::string name, std::string token) {
  Implementation out;
  out.name = std::move(name);
  out.takes_largest_at_once = false;
  out.same_user = false;
  out.network = true;
  out.tagged_have_owners = true;
  out.unavailable = [] {
    const UcxReport report = find_ucx();
    std::string why;
    for (const std::string& line : report.tried) why += line + "; ";
    return report.found ? std::string() : "no UCX: " + why;
  };
  out.connect = [token](const Wishes& wishes) {
    UcxOptions options;
    options.max_message = options.max_request = wishes.max_message;
    options.token = token;
    if (wishes.small_queue) options.queue_bytes = 0;
    const auto listener = ucx_listen("", wishes.agreement.want_data, *wishes.agreement.free_data, options, nullptr);
    const std::string uri = listener->uri();
    Pair pair;
    std::exception_ptr failure;
    std::thread connecting([&] {
      try {
        pair.second = ucx_connect(uri.substr(4), options, kPatienceMs, nullptr);
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

INSTANTIATE_TEST_SUITE_P(Ucx, TransportConformance,
                         ::testing::Values(ucx("ucx", ""), ucx("ucx_token", "a shared secret")), implementation_name);

}  // namespace
}  // namespace crossdock::transport::conformance
