// What a call leaves where its results go if it fails: a defined value, whichever argument was wrong.
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "samples.h"

namespace crossdock::testing {
namespace {

/// A place for a result, full of bytes that no result has. The last ones are no part of it.
template <class T>
struct Place {
  Place() { std::memset(static_cast<void*>(this), 0xAB, sizeof *this); }
  T value;
  unsigned char behind[8];
};

template <class T>
bool is_empty(T* const& handle) {
  return handle == nullptr;
}
bool is_empty(const std::int32_t& number) { return number == 0; }
bool is_empty(const ArrowDeviceArray& array) { return array.array.release == nullptr; }
template <class T>
requires requires(T value) { value.release; }
bool is_empty(const T& structure) { return structure.release == nullptr; }
bool is_empty(const crossdock_entry& entry) {
  return entry.size == sizeof entry && entry.name.data == nullptr && entry.name.size == 0 && entry.rows == 0 &&
         entry.bytes == 0 && entry.version == 0 && entry.kind == 0;
}

/// Calls of one function that fail, each with new places for its results.
class Failures {
 public:
  explicit Failures(const char* function) : function_(function) {}
  /// Calls `call` with the addresses of a `Ts` each, and checks what it leaves; then once more for each of these with
  /// null instead of it.
  template <class... Ts, class Call>
  const Failures& with(Call call) const {
    fail<Ts...>(call, sizeof...(Ts));  // no address is null
    for (std::size_t without = 0; without < sizeof...(Ts); ++without) fail<Ts...>(call, without);
    return *this;
  }

 private:
  template <class... Ts, class Call>
  void fail(Call& call, std::size_t without) const {
    std::tuple<Place<Ts>...> places;
    prepare(places);
    std::apply(
        [&](auto&... place) {
          std::size_t at = 0;
          crossdock_status status = CROSSDOCK_OK;
          const auto next = [&](auto* address) { return at++ == without ? nullptr : address; };
          const auto addresses = std::tuple{next(&place.value)...};  // in this order: braces say so
          std::apply([&](auto... address) { status = call(address...); }, addresses);
          EXPECT_NE(status, CROSSDOCK_OK) << function_;
          at = 0;
          const auto check = [&](const auto& one) {
            EXPECT_TRUE(at == without || is_empty(one.value))
                << function_ << ": result " << at << ", where number " << without << " is NULL";
            EXPECT_EQ(one.behind[0], 0xAB) << function_;
            ++at;
          };
          (check(place), ...);
        },
        places);
  }
  template <class... Ts>
  static void prepare(std::tuple<Place<Ts>...>& places) {
    std::apply([](auto&... place) { (set_size(place.value), ...); }, places);
  }
  template <class T>
  static void set_size(T&) {}
  static void set_size(crossdock_entry& entry) { entry.size = sizeof entry; }

  const char* function_;
};

/// Returns the names of all functions of the C interface that return a status.
std::vector<std::string> functions_of_headers() {
  std::vector<std::string> names;
  for (const char* header : {"client", "options", "queue", "reader", "server", "source", "status", "stop", "tensor"}) {
    std::ifstream file(std::string(CROSSDOCK_HEADERS) + "/" + header + ".h");
    std::stringstream text;
    text << file.rdbuf();
    const std::string all = text.str();
    EXPECT_FALSE(all.empty()) << header;
    const std::regex declaration(R"(CROSSDOCK_API crossdock_status (crossdock_\w+)\()");
    for (std::sregex_iterator at(all.begin(), all.end(), declaration), end; at != end; ++at) names.push_back((*at)[1]);
  }
  return names;
}

TEST_F(CApi, AFailureLeavesDefinedResults) {
  const crossdock_string name = crossdock_str("name");
  const crossdock_string no_text = {nullptr, 1};
  publish_numbers("numbers");
  Catalog catalog;
  ASSERT_TRUE(ok(crossdock_client_list(client_, &catalog, &error_)));
  crossdock_error** const error = &error_;
  const auto source_from = [&](const char* function, auto make) {
    Failures(function).with<crossdock_source*>([&](crossdock_source** source) { return make(source); });
  };
  using Check = std::function<void(const char* function)>;
  const std::map<std::string, Check> checks = {
      {"crossdock_stop_new",
       [&](const char*) { EXPECT_NE(crossdock_stop_new(nullptr, error), CROSSDOCK_OK); }},  // fails for NULL alone
      {"crossdock_serve",
       [&](const char* f) {
         crossdock_server_options wrong{};
         Failures(f).with<crossdock_server*>([&](auto** server) { return crossdock_serve(&wrong, server, error); });
       }},
      {"crossdock_connect",
       [&](const char* f) {
         Failures(f).with<crossdock_client*>(
             [&](auto** client) { return crossdock_connect(no_text, nullptr, client, error); });
       }},
      {"crossdock_queue_find",
       [&](const char* f) {
         Failures(f).with<crossdock_queue*>(
             [&](auto** queue) { return crossdock_queue_find(no_text, {}, queue, error); });
       }},
      {"crossdock_source_table",
       [&](const char* f) { source_from(f, [&](auto** s) { return crossdock_source_table(nullptr, s, error); }); }},
      {"crossdock_source_device_table",
       [&](const char* f) {
         source_from(f, [&](auto** s) { return crossdock_source_device_table(nullptr, s, error); });
       }},
      {"crossdock_source_live",
       [&](const char* f) { source_from(f, [&](auto** s) { return crossdock_source_live(nullptr, s, error); }); }},
      {"crossdock_source_device_live",
       [&](const char* f) {
         source_from(f, [&](auto** s) { return crossdock_source_device_live(nullptr, s, error); });
       }},
      {"crossdock_source_batches",
       [&](const char* f) {
         source_from(f, [&](auto** s) { return crossdock_source_batches(nullptr, nullptr, 0, s, error); });
       }},
      {"crossdock_source_factory",
       [&](const char* f) {
         source_from(f, [&](auto** s) { return crossdock_source_factory(nullptr, nullptr, nullptr, s, error); });
       }},
      {"crossdock_source_file",
       [&](const char* f) { source_from(f, [&](auto** s) { return crossdock_source_file(no_text, 0, s, error); }); }},
      {"crossdock_source_tensor",
       [&](const char* f) { source_from(f, [&](auto** s) { return crossdock_source_tensor(nullptr, s, error); }); }},
      {"crossdock_source_tensors",
       [&](const char* f) {
         source_from(f, [&](auto** s) { return crossdock_source_tensors(nullptr, 1, s, error); });
       }},
      {"crossdock_server_drain",
       [&](const char*) {  // `drained` may be null
         std::int32_t drained = 7;
         EXPECT_NE(crossdock_server_drain(nullptr, 0, &drained, error), CROSSDOCK_OK);
         EXPECT_EQ(drained, 0);
       }},
      {"crossdock_client_list",
       [&](const char* f) {
         Failures(f).with<crossdock_catalog*>([&](auto** c) { return crossdock_client_list(nullptr, c, error); });
       }},
      {"crossdock_catalog_entry",
       [&](const char* f) {
         for (const crossdock_catalog* of : {static_cast<crossdock_catalog*>(nullptr), +catalog}) {
           Failures(f).with<crossdock_entry>(
               [&](crossdock_entry* entry) { return crossdock_catalog_entry(of, 7, entry, error); });
         }
       }},
      {"crossdock_catalog_schema",
       [&](const char* f) {
         for (const crossdock_catalog* of : {static_cast<crossdock_catalog*>(nullptr), +catalog}) {
           Failures(f).with<ArrowSchema>(
               [&](ArrowSchema* schema) { return crossdock_catalog_schema(of, 7, schema, error); });
         }
       }},
      {"crossdock_client_get",
       [&](const char* f) {
         for (crossdock_client* client : {static_cast<crossdock_client*>(nullptr), client_}) {
           Failures(f).with<crossdock_reader*>(
               [&](auto** reader) { return crossdock_client_get(client, name, nullptr, reader, error); });
         }
       }},
      {"crossdock_reader_schema",
       [&](const char* f) {
         Failures(f).with<ArrowSchema>([&](auto* schema) { return crossdock_reader_schema(nullptr, schema, error); });
       }},
      {"crossdock_reader_next",
       [&](const char* f) {
         Failures(f).with<ArrowArray>([&](auto* batch) { return crossdock_reader_next(nullptr, batch, error); });
       }},
      {"crossdock_reader_next_device",
       [&](const char* f) {
         Failures(f).with<ArrowDeviceArray>(
             [&](auto* batch) { return crossdock_reader_next_device(nullptr, batch, error); });
       }},
      {"crossdock_reader_try_next",
       [&](const char* f) {
         Failures(f).with<ArrowDeviceArray, std::int32_t>(
             [&](auto* batch, auto* arrived) { return crossdock_reader_try_next(nullptr, batch, arrived, error); });
       }},
      {"crossdock_reader_prepare_sleep",
       [&](const char* f) {
         Failures(f).with<std::int32_t>(
             [&](auto* sleep) { return crossdock_reader_prepare_sleep(nullptr, sleep, error); });
       }},
      {"crossdock_reader_to_stream",
       [&](const char* f) {
         Failures(f).with<ArrowArrayStream>(
             [&](auto* stream) { return crossdock_reader_to_stream(nullptr, stream, error); });
       }},
      {"crossdock_reader_to_device_stream",
       [&](const char* f) {
         Failures(f).with<ArrowDeviceArrayStream>(
             [&](auto* stream) { return crossdock_reader_to_device_stream(nullptr, stream, error); });
       }},
      {"crossdock_client_get_tensor",
       [&](const char* f) {
         for (crossdock_client* client : {static_cast<crossdock_client*>(nullptr), client_}) {
           Failures(f).with<DLManagedTensorVersioned*>(
               [&](auto** tensor) { return crossdock_client_get_tensor(client, name, nullptr, tensor, error); });
         }
       }},
      {"crossdock_client_get_tensors",
       [&](const char* f) {
         for (crossdock_client* client : {static_cast<crossdock_client*>(nullptr), client_}) {
           Failures(f).with<crossdock_tensors*>(
               [&](auto** tensors) { return crossdock_client_get_tensors(client, name, nullptr, tensors, error); });
         }
       }},
      {"crossdock_tensors_take",
       [&](const char* f) {
         Failures(f).with<DLManagedTensorVersioned*>(
             [&](auto** tensor) { return crossdock_tensors_take(nullptr, 0, tensor, error); });
       }},
      // These have no result of their own.
      {"crossdock_error_set", {}},
      {"crossdock_error_status", {}},
      {"crossdock_server_publish", {}},
      {"crossdock_server_update", {}},
      {"crossdock_server_withdraw", {}},
      {"crossdock_server_close", {}},
      {"crossdock_client_close", {}},
      {"crossdock_client_get_tensor_into", {}},
      {"crossdock_reader_awake", {}},
      {"crossdock_reader_close", {}},
  };
  for (const auto& [function, check] : checks) {
    if (check) check(function.c_str());
  }
  const std::vector<std::string> functions = functions_of_headers();
  EXPECT_EQ(functions.size(), checks.size());
  for (const std::string& function : functions) EXPECT_TRUE(checks.contains(function)) << function;
}

}  // namespace
}  // namespace crossdock::testing
