#include "crossdock/c_api/client.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <utility>

#include "c_api/arguments.h"
#include "c_api/boundary.h"
#include "c_api/client_handle.h"
#include "c_api/stop_flag.h"
#include "c_api/transports.h"
#include "crossdock/core/error.h"
#include "crossdock/session/client.h"

using namespace crossdock::c_api;  // The functions below are C's, in no namespace.
namespace session = crossdock::session;

namespace {

session::GetOptions get_options(const crossdock_get_options* given) {
  constexpr std::size_t kFirst = offsetof(crossdock_get_options, copy_on_write) + sizeof(std::int32_t);
  const auto read = options_of(given, kFirst, "crossdock_get_options");
  session::GetOptions options;
  auto columns = texts_of(read.columns, read.n_columns, "columns");
  if (read.columns != nullptr) options.columns = std::move(columns);
  if (read.first_row != 0 || read.n_rows != 0) {
    const std::uint64_t rest = std::numeric_limits<std::uint64_t>::max() - read.first_row;
    options.rows = {read.first_row, read.n_rows != 0 ? std::min(read.n_rows, rest) : rest};
  }
  if (read.timeout_ms != 0) options.timeout = time_limit(read.timeout_ms);
  options.device = device_of(read.device_type, read.device_id);
  options.wait = wait_of(read.wait);
  options.validation = validation_of(read.validation);
  options.copy_on_write = read.copy_on_write != 0;
  return options;
}

}  // namespace

crossdock_status crossdock_connect(crossdock_string uri, const crossdock_client_options* options,
                                   crossdock_client** client, crossdock_error** error) {
  return guarded(__func__, error, [&] {
    crossdock_client*& out = result(client, "client");
    constexpr std::size_t kFirst = offsetof(crossdock_client_options, timeout_ms) + sizeof(std::int64_t);
    const auto given = options_of(options, kFirst, "crossdock_client_options");
    session::ClientOptions made;
    made.transports = transports_of(given.transports);
    if (given.timeout_ms != 0) made.timeout = time_limit(given.timeout_ms);
    out = new crossdock_client(c_text_of(uri, "uri"), std::move(made), hook_of(given.stop));
  });
}

void crossdock_client_release(crossdock_client** client) { release(client); }

crossdock_status crossdock_client_close(crossdock_client* client, crossdock_error** error) {
  return guarded(__func__, error, [&] { need(client, "client").client.close(); });
}

crossdock_status crossdock_client_get(crossdock_client* client, crossdock_string name,
                                      const crossdock_get_options* options, crossdock_reader** reader,
                                      crossdock_error** error) {
  return guarded(__func__, error, [&] {
    crossdock_reader*& out = result(reader, "reader");
    need(client, "client");
    std::shared_ptr<session::Reader> got =
        client->client.get(text_of(name, "name"), get_options(options), client->interrupted);
    got->set_interrupt_hook(client->interrupted);
    out = new crossdock_reader{std::move(got)};
  });
}
