#include "module.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arena.h"
#include "core/amounts.h"
#include "core/text.h"
#include "crossdock/session/client.h"
#include "deferred.h"
#include "inspect.h"
#include "interrupt.h"
#include "offload/selector.h"
#include "options.h"
#include "producer.h"
#include "reader.h"
#include "server_stats.h"
#include "tensor/tensor.h"
#include "tensor/transfer.h"
#include "text.h"
#include "time_limit.h"
#include "transport/tls.h"
#include "types.h"
#include "wait.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace crossdock::python {
namespace {

/// Calls blocking(), with the caller's interrupt if there is one.
template <class Call>
auto in_call(Interrupt* interrupt, Call&& call) {
  return interrupt == nullptr ? blocking(call) : blocking(*interrupt, call);
}

class PyClient {
 public:
  PyClient(const std::string& uri, const std::optional<std::string>& data_uri, int timeout_ms,
           const std::optional<std::string>& way, const session::TransportOptions& transports, bool any_location) {
    session::ClientOptions options{.timeout = time_limit(timeout_ms),
                                   .transports = session::make_transports(transports),
                                   .any_location = any_location};
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

  nb::dict server_stats() {
    return dict_of(blocking([&](const transport::InterruptHook& hook) { return client_->server_stats(hook); }));
  }

  /// Returns a new object that the caller owns.
  PyReader* get(const nb::bytes& name, std::optional<std::vector<std::string>> columns, const std::string& wait,
                int timeout_ms, const std::optional<std::string>& validation, const ipc::Limits& limits,
                nb::handle arena, nb::handle device, std::optional<std::uint64_t> read_ahead, bool copy_on_write,
                const StreamLog* log, Interrupt* interrupt,
                const std::optional<std::pair<std::uint64_t, std::uint64_t>>& rows,
                const std::optional<std::vector<std::pair<std::uint32_t, std::uint32_t>>>& batches) {
    session::GetOptions options;
    if (rows) options.rows = {rows->first, rows->second};
    if (batches) {
      options.batches.emplace();
      for (const auto& [first, count] : *batches) options.batches->push_back({first, count});
    }
    if (read_ahead) options.read_ahead = *read_ahead;
    options.copy_on_write = copy_on_write;
    options.limits = limits;
    if (!arena.is_none()) options.arena = arena_in(arena);
    if (!device.is_none()) options.device = select_device(device);
    if (validation) options.validation = validation_of(*validation);
    options.columns = std::move(columns);
    options.wait = wait_of(wait);
    options.timeout = time_limit(timeout_ms);
    if (log != nullptr) log->attach(&options);
    const auto start = [&, which = name_in(name)](const transport::InterruptHook& hook) {
      return client_->get(which, options, hook);
    };
    return new PyReader(in_call(interrupt, start));
  }

  /// Returns a new object that the caller owns; null if the server doesn't know such requests.
  PyReader* batch_statistics(const nb::bytes& name, std::vector<std::string> columns, int timeout_ms,
                             Interrupt* interrupt) {
    auto reader = in_call(interrupt, [&, which = name_in(name)](const transport::InterruptHook& hook) {
      return client_->batch_statistics(which, columns, time_limit(timeout_ms), hook);
    });
    return reader ? new PyReader(std::move(reader)) : nullptr;
  }

  /// Returns the tensor, and the bytes that were copied here.
  nb::tuple tensor(const nb::bytes& name, const std::optional<TensorObject>& out, nb::handle device,
                   const std::string& wait, int timeout_ms, const ipc::Limits& limits, bool copy_on_write,
                   const StreamLog* log, Interrupt* interrupt) {
    std::uint64_t copied = 0;
    session::TensorOptions options = tensor_options(device, wait, timeout_ms, limits, copy_on_write, &copied);
    if (log != nullptr) log->attach(&options);
    if (out) {
      find_drivers_for(**out);
      options.out = &**out;
    }
    array::Tensor received = in_call(interrupt, [&, which = name_in(name)](const transport::InterruptHook& hook) {
      return client_->tensor(which, options, hook);
    });
    return nb::make_tuple(checked(new_tensor(std::move(received))), copied);
  }

  /// Returns a list of pairs of path and tensor, and the bytes that were copied here.
  nb::tuple tensors(const nb::bytes& name, std::uint64_t max_tensors, nb::handle device, const std::string& wait,
                    int timeout_ms, const ipc::Limits& limits, bool copy_on_write, const StreamLog* log,
                    Interrupt* interrupt) {
    std::uint64_t copied = 0;
    session::TensorOptions options = tensor_options(device, wait, timeout_ms, limits, copy_on_write, &copied);
    options.max_tensors = max_tensors;
    if (log != nullptr) log->attach(&options);
    std::vector<session::NamedTensor> received =
        in_call(interrupt, [&, which = name_in(name)](const transport::InterruptHook& hook) {
          return client_->tensors(which, options, hook);
        });
    nb::list all;
    for (session::NamedTensor& named : received) {
      all.append(nb::make_tuple(nb::cast(named.path), checked(new_tensor(std::move(named.tensor)))));
    }
    return nb::make_tuple(all, copied);
  }

  void put(const nb::bytes& name, nb::handle producer, bool replace) {
    auto stream = open_producer(producer);
    blocking([&, which = name_in(name)](const transport::InterruptHook& hook) {
      const auto source = interruptible_stream(std::move(stream), hook);
      client_->put(which, *source, replace, wait_for_event, hook);
    });
  }

  void offer(const nb::bytes& name, nb::handle producer, bool replace) {
    auto stream = open_producer(producer);
    blocking([&, which = name_in(name)](const transport::InterruptHook& hook) {
      client_->offer(which, interruptible_stream(std::move(stream), hook), replace, wait_for_event, hook);
    });
  }

  bool drop_ended() {
    const GilRelease release;
    return client_->drop_ended();
  }

  void close() {
    blocking([this](const transport::InterruptHook&) { client_->close(); });
  }

 private:
  static session::TensorOptions tensor_options(nb::handle device, const std::string& wait, int timeout_ms,
                                               const ipc::Limits& limits, bool copy_on_write, std::uint64_t* copied) {
    session::TensorOptions options;
    if (!device.is_none()) options.device = select_device(device);
    options.wait = wait_of(wait);
    options.timeout = time_limit(timeout_ms);
    options.limits = limits;
    options.copy_on_write = copy_on_write;
    options.bytes_copied = copied;
    return options;
  }

  std::unique_ptr<session::Client> client_;
};

std::optional<std::string> text_or_none(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

std::optional<session::TensorContent> content_of(const session::CatalogEntry& entry) {
  return entry.schema ? session::tensor_content(*entry.schema) : std::nullopt;
}

}  // namespace

void bind_client(nb::module_& module) {
  using session::CatalogEntry;
  nb::class_<CatalogEntry>(module, "CatalogEntry", "One entry of a server's catalog.")
      .def_prop_ro(
          "name", [](const CatalogEntry& self) { return published_name(self.name); },
          "The name: a str, or bytes if it isn't text.")
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
          "kind",
          [](const CatalogEntry& self) {
            const auto content = content_of(self);
            return !content ? "table" : content->single ? "tensor" : "tensors";
          },
          "\"table\", for get(); \"tensor\", for tensor(); or \"tensors\", several, for tensors().")
      .def_prop_ro(
          "count",
          [](const CatalogEntry& self) {
            const auto content = content_of(self);
            return content ? count_or_none(content->count) : nb::none();
          },
          "The number of tensors; None of a table, or if it is unknown.")
      .def_prop_ro(
          "dtype",
          [](const CatalogEntry& self) {
            const auto content = content_of(self);
            return content ? text_or_none(content->type) : std::nullopt;
          },
          "The name of a single tensor's type, as \"float32\"; else None.")
      .def_prop_ro(
          "shape",
          [](const CatalogEntry& self) -> nb::object {
            const auto content = content_of(self);
            if (!content || content->type.empty()) return nb::none();
            return checked(tuple_of(content->shape));
          },
          "The shape of a single tensor; else None.")
      .def_prop_ro(
          "bytes", [](const CatalogEntry& self) { return count_or_none(self.bytes); },
          "The size of the data in bytes; None if it is unknown.")
      .def_prop_ro(
          "device", [](const CatalogEntry& self) { return self.device; },
          "Where the data is, as \"cpu\" or \"cuda:0\".")
      .def_prop_ro(
          "way",
          [](const CatalogEntry& self) {
            return self.way ? std::optional(std::string(transport::way_name(*self.way))) : std::nullopt;
          },
          "How bodies would be sent to get() without options: \"map\", \"read\" or \"message\". None: they can't be "
          "sent, the server doesn't say, or the client has two connections.")
      .def_prop_ro(
          "why", [](const CatalogEntry& self) { return text_or_none(self.why); },
          "The server's reason; None if it doesn't say.")
      .def_prop_ro(
          "version", [](const CatalogEntry& self) { return count_or_none(self.version); },
          "A number that changes when other data is published under the name, also by a server that was restarted. "
          "None for a live stream and a callable, or if the server doesn't say.")
      .def("__repr__", [](const CatalogEntry& self) {
        const auto count = [](std::int64_t value, const char* one) {
          return value < 0 ? "? " + std::string(one) + "s" : counted(value, one);
        };
        const auto content = content_of(self);
        const std::string what = !content ? count(self.rows, "row")
                                 : content->single
                                     ? "a tensor, " + printable(content->type) + " " + array::shape_text(content->shape)
                                     : count(content->count, "tensor");
        return nb::str("<crossdock.CatalogEntry {!r}: {}, {}, {}>")
            .format(published_name(self.name), what, count(self.bytes, "byte"), self.device);
      });

  nb::class_<transport::TlsOptions>(module, "TlsOptions")
      .def(
          "__init__",
          [](transport::TlsOptions* self, const nb::bytes& certificate, const nb::bytes& key, const nb::bytes& roots,
             const nb::bytes& client_roots, std::string server_name, const std::array<std::string, 4>& named) {
            const auto text = [](const nb::bytes& pem) { return std::string(pem.c_str(), pem.size()); };
            transport::TlsOptions made{.certificate_chain = text(certificate),
                                       .private_key = text(key),
                                       .roots = text(roots),
                                       .client_roots = text(client_roots),
                                       .server_name = std::move(server_name)};
            transport::check_tls_texts(made, {named[0], named[1], named[2], named[3]});
            new (self) transport::TlsOptions(std::move(made));
          },
          "certificate"_a, "key"_a, "roots"_a, "client_roots"_a, "server_name"_a, "named"_a);

  nb::class_<session::TransportOptions>(module, "TransportOptions")
      .def(
          "__init__",
          [](session::TransportOptions* self, bool any_user, std::vector<std::uint32_t> other_users,
             const std::string& token, const std::pair<std::string, std::string>& login, std::optional<bool> checksum,
             std::vector<std::string> ucx_libraries, const std::optional<std::string>& fabric_provider,
             bool remote_reads, const std::optional<transport::TlsOptions>& tls) {
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
                .grpc = {.token = login.first.empty() && login.second.empty() ? token : std::string(),
                         .user = login.first,
                         .password = login.second},
                .tls = tls.value_or(transport::TlsOptions{}),
            };
          },
          "any_user"_a, "other_users"_a, "token"_a, "login"_a, "checksum"_a.none(), "ucx_libraries"_a,
          "fabric_provider"_a.none(), "remote_reads"_a, "tls"_a.none());

  nb::class_<Interrupt>(module, "Interrupt", "Ends a call of another thread, to which it was passed.")
      .def(nb::init<>())
      .def("cancel", &Interrupt::cancel);

  nb::class_<PyClient>(module, "Client")
      .def(nb::init<const std::string&, const std::optional<std::string>&, int, const std::optional<std::string>&,
                    const session::TransportOptions&, bool>(),
           "uri"_a, "data_uri"_a.none(), "timeout_ms"_a, "way"_a.none(), "transports"_a, "any_location"_a)
      .def("list", &PyClient::list, "max_entries"_a, "max_bytes"_a)
      .def("server_stats", &PyClient::server_stats)
      .def("get", &PyClient::get, nb::rv_policy::take_ownership, "name"_a, "columns"_a.none(), "wait"_a, "timeout_ms"_a,
           "validation"_a.none(), "limits"_a, "arena"_a.none(), "device"_a.none(), "read_ahead"_a.none(),
           "copy_on_write"_a, "log"_a.none() = nb::none(), "interrupt"_a.none() = nb::none(),
           "rows"_a.none() = nb::none(), "batches"_a.none() = nb::none())
      .def("batch_statistics", &PyClient::batch_statistics, nb::rv_policy::take_ownership, "name"_a, "columns"_a,
           "timeout_ms"_a, "interrupt"_a.none() = nb::none())
      .def("put", &PyClient::put, "name"_a, "producer"_a, "replace"_a)
      .def("offer", &PyClient::offer, "name"_a, "producer"_a, "replace"_a)
      .def("tensor", &PyClient::tensor, "name"_a, "out"_a.none(), "device"_a.none(), "wait"_a, "timeout_ms"_a,
           "limits"_a, "copy_on_write"_a, "log"_a.none() = nb::none(), "interrupt"_a.none() = nb::none())
      .def("tensors", &PyClient::tensors, "name"_a, "max_tensors"_a, "device"_a.none(), "wait"_a, "timeout_ms"_a,
           "limits"_a, "copy_on_write"_a, "log"_a.none() = nb::none(), "interrupt"_a.none() = nb::none())
      .def("drop_ended", &PyClient::drop_ended)
      .def("close", &PyClient::close);
}

}  // namespace crossdock::python
