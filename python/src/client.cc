#include "module.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arena.h"
#include "crossdock/session/client.h"
#include "deferred.h"
#include "inspect.h"
#include "interrupt.h"
#include "offload/selector.h"
#include "options.h"
#include "reader.h"
#include "types.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

class PyClient {
 public:
  PyClient(const std::string& uri, const std::optional<std::string>& data_uri, int timeout_ms,
           const std::optional<std::string>& way, const session::TransportOptions& transports) {
    session::ClientOptions options{.timeout_ms = timeout_ms, .transports = session::make_transports(transports)};
    if (way) options.way = way_of(*way);
    client_ = blocking([&](const transport::InterruptHook& hook) {
      if (data_uri) return std::make_unique<session::Client>(uri, *data_uri, std::move(options), hook);
      return std::make_unique<session::Client>(uri, std::move(options), hook);
    });
  }
  PyClient(const PyClient&) = delete;
  PyClient& operator=(const PyClient&) = delete;
  ~PyClient() {
    const GilRelease release;
    client_.reset();
  }

  std::vector<session::CatalogEntry> list(std::uint64_t max_entries, std::uint64_t max_bytes) {
    const session::ListOptions options{.max_entries = max_entries, .max_bytes = max_bytes};
    return blocking([&](const transport::InterruptHook& hook) { return client_->list(options, hook); });
  }

  /// Returns a new object that the caller owns.
  PyReader* get(const std::string& name, std::optional<std::vector<std::string>> columns, const std::string& wait,
                int timeout_ms, const std::optional<std::string>& validation, const ipc::Limits& limits,
                nb::handle arena, nb::handle device, std::optional<std::uint64_t> read_ahead, bool copy_on_write,
                const StreamLog* log, Interrupt* interrupt) {
    session::GetOptions options;
    if (read_ahead) options.read_ahead = *read_ahead;
    options.copy_on_write = copy_on_write;
    options.limits = limits;
    if (!arena.is_none()) options.arena = arena_in(arena);
    if (!device.is_none()) options.device = select_device(device);
    if (validation) options.validation = validation_of(*validation);
    options.all_columns = !columns.has_value();
    if (columns) options.columns = std::move(*columns);
    options.wait = wait_of(wait);
    options.timeout_ms = timeout_ms;
    if (log != nullptr) log->attach(&options);
    const auto start = [&](const transport::InterruptHook& hook) { return client_->get(name, options, hook); };
    return new PyReader(interrupt == nullptr ? blocking(start) : blocking(*interrupt, start));
  }

  bool drop_ended() {
    const GilRelease release;
    return client_->drop_ended();
  }

  void close() {
    blocking([this](const transport::InterruptHook&) { client_->close(); });
  }

 private:
  std::unique_ptr<session::Client> client_;
};

std::optional<std::string> text_or_none(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

void bind_client(nb::module_& module) {
  using session::CatalogEntry;
  nb::class_<CatalogEntry>(module, "CatalogEntry", "One entry of a server's catalog.")
      .def_prop_ro("name", [](const CatalogEntry& self) { return self.name; })
      .def_prop_ro(
          "schema",
          [](const CatalogEntry& self) {
            return self.schema ? std::optional<PySchema>(PySchema{self.schema}) : std::nullopt;
          },
          "None for a callable: its schema is known only when it is called.")
      .def_prop_ro(
          "rows", [](const CatalogEntry& self) { return count_or_none(self.rows); },
          "The number of rows; None if it is unknown.")
      .def_prop_ro(
          "bytes", [](const CatalogEntry& self) { return count_or_none(self.bytes); },
          "The size of the data in bytes; None if it is unknown.")
      .def_prop_ro("device", [](const CatalogEntry& self) { return self.device; })
      .def_prop_ro(
          "way",
          [](const CatalogEntry& self) {
            return self.way ? std::optional(std::string(transport::way_name(*self.way))) : std::nullopt;
          },
          "How bodies come to get() without options: \"map\", \"read\" or \"message\"; None if they can't, the server "
          "doesn't say, or the client has two connections.")
      .def_prop_ro(
          "why", [](const CatalogEntry& self) { return text_or_none(self.why); },
          "The server's reason; None if it doesn't say.")
      .def("__repr__", [](const CatalogEntry& self) {
        const auto count = [](std::int64_t value) { return value < 0 ? std::string("?") : std::to_string(value); };
        return nb::str("<crossdock.CatalogEntry {!r}: {} rows, {} bytes, {}>")
            .format(self.name, count(self.rows), count(self.bytes), self.device);
      });

  nb::class_<session::TransportOptions>(module, "TransportOptions")
      .def(
          "__init__",
          [](session::TransportOptions* self, bool any_user, std::vector<std::uint32_t> other_users,
             const std::string& token, std::optional<bool> checksum, std::vector<std::string> ucx_libraries,
             const std::optional<std::string>& fabric_provider, bool remote_reads) {
            using transport::Checksum;
            transport::FabricOptions fabric{.token = token};
            if (fabric_provider) fabric.provider = *fabric_provider;
            new (self) session::TransportOptions{
                .shm = {.other_users = std::move(other_users), .any_user = any_user},
                .tcp = {.token = token,
                        .checksum = !checksum   ? Checksum::kAuto
                                    : *checksum ? Checksum::kOn
                                                : Checksum::kOff},
                .ucx = {.token = token, .libraries = std::move(ucx_libraries), .remote_reads = remote_reads},
                .fabric = std::move(fabric),
            };
          },
          "any_user"_a, "other_users"_a, "token"_a, "checksum"_a.none(), "ucx_libraries"_a, "fabric_provider"_a.none(),
          "remote_reads"_a);

  nb::class_<Interrupt>(module, "Interrupt", "Ends a call of another thread, to which it was passed.")
      .def(nb::init<>())
      .def("cancel", &Interrupt::cancel);

  nb::class_<PyClient>(module, "Client")
      .def(nb::init<const std::string&, const std::optional<std::string>&, int, const std::optional<std::string>&,
                    const session::TransportOptions&>(),
           "uri"_a, "data_uri"_a.none(), "timeout_ms"_a, "way"_a.none(), "transports"_a)
      .def("list", &PyClient::list, "max_entries"_a, "max_bytes"_a)
      .def("get", &PyClient::get, nb::rv_policy::take_ownership, "name"_a, "columns"_a.none(), "wait"_a, "timeout_ms"_a,
           "validation"_a.none(), "limits"_a, "arena"_a.none(), "device"_a.none(), "read_ahead"_a.none(),
           "copy_on_write"_a, "log"_a.none() = nb::none(), "interrupt"_a.none() = nb::none())
      .def("drop_ended", &PyClient::drop_ended)
      .def("close", &PyClient::close);
}

}  // namespace crossdock::python
