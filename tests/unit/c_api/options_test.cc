// Structs of options: sizes of other versions, and values that nothing means.
#include <cstddef>
#include <cstring>

#include "samples.h"

namespace crossdock::testing {
namespace {

/// The struct as a later version might have it.
struct LaterGetOptions {
  crossdock_get_options known;
  std::uint64_t unknown;
};

class COptions : public CApi {
 protected:
  void SetUp() override {
    CApi::SetUp();
    publish_numbers("numbers");
  }
  crossdock_status get(const crossdock_get_options& options) {
    Reader reader;
    return crossdock_client_get(client_, crossdock_str("numbers"), &options, &reader, &error_);
  }
};

TEST_F(COptions, ASizeThatNoVersionHasIsRefused) {
  for (const std::size_t size :
       {std::size_t{0}, sizeof(void*), sizeof(crossdock_get_options) - 1, std::size_t{4097}, SIZE_MAX}) {
    crossdock_get_options options{};
    options.size = size;
    EXPECT_TRUE(failed(get(options), CROSSDOCK_ERROR_INVALID_ARGUMENT, "set it to sizeof(crossdock_get_options)"));
  }
}

TEST_F(COptions, ALaterVersionsStructIsTakenIfItAsksForNothingUnknown) {
  LaterGetOptions later{};
  later.known.size = sizeof later;
  EXPECT_TRUE(ok(get(later.known)));
  later.unknown = 1;
  EXPECT_TRUE(failed(get(later.known), CROSSDOCK_ERROR_UNSUPPORTED, "crossdock_get_options has a member set"));
}

TEST_F(COptions, EveryStructIsChecked) {
  Server server;
  crossdock_server_options for_server{};
  EXPECT_TRUE(failed(crossdock_serve(&for_server, &server, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT,
                     "sizeof(crossdock_server_options)"));
  crossdock_transport_options transports{};
  for_server.size = sizeof for_server;
  for_server.transports = &transports;
  EXPECT_TRUE(failed(crossdock_serve(&for_server, &server, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT,
                     "sizeof(crossdock_transport_options)"));

  Client client;
  crossdock_client_options for_client{};
  EXPECT_TRUE(failed(crossdock_connect(crossdock_str("shm:x"), &for_client, &client, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "sizeof(crossdock_client_options)"));

  Released<ArrowArrayStream> stream;
  array::export_stream(number_stream(1, 1), &stream);
  Source source;
  ASSERT_TRUE(ok(crossdock_source_table(&stream, &source, &error_)));
  crossdock_publish_options for_publish{};
  EXPECT_TRUE(failed(crossdock_server_publish(server_, crossdock_str("t"), &source, &for_publish, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "sizeof(crossdock_publish_options)"));
  EXPECT_EQ(source, nullptr) << "publishing consumes the source in any case";

  DLManagedTensorVersioned* tensor = nullptr;
  crossdock_tensor_options for_tensor{};
  EXPECT_TRUE(failed(crossdock_client_get_tensor(client_, crossdock_str("t"), &for_tensor, &tensor, &error_),
                     CROSSDOCK_ERROR_INVALID_ARGUMENT, "sizeof(crossdock_tensor_options)"));

  Catalog catalog;
  ASSERT_TRUE(ok(crossdock_client_list(client_, &catalog, &error_)));
  crossdock_entry entry{};
  EXPECT_TRUE(failed(crossdock_catalog_entry(catalog, 0, &entry, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT,
                     "sizeof(crossdock_entry)"));
}

/// A result as a later version might have it, with bytes that no result has, and memory behind it.
struct LaterEntry {
  LaterEntry() {
    std::memset(static_cast<void*>(this), 0xAB, sizeof *this);
    known.size = offsetof(LaterEntry, behind);
  }
  crossdock_entry known;
  std::uint64_t unknown;
  std::uint64_t behind;
};

TEST_F(COptions, MembersOfAResultThatTheLibraryDoesNotKnowAreZero) {
  Catalog catalog;
  ASSERT_TRUE(ok(crossdock_client_list(client_, &catalog, &error_)));
  for (const bool succeeds : {true, false}) {
    LaterEntry later;
    const crossdock_status status = crossdock_catalog_entry(catalog, succeeds ? 0 : 1, &later.known, &error_);
    EXPECT_EQ(status, succeeds ? CROSSDOCK_OK : CROSSDOCK_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(later.known.size, offsetof(LaterEntry, behind));
    EXPECT_EQ(later.known.rows, succeeds ? 6 : 0);
    EXPECT_EQ(later.unknown, 0U);
    EXPECT_EQ(later.behind, 0xABABABABABABABABU) << "what is beyond the caller's size isn't written";
  }
}

TEST_F(COptions, AResultWithAWrongSizeIsNotWritten) {
  Catalog catalog;
  ASSERT_TRUE(ok(crossdock_client_list(client_, &catalog, &error_)));
  for (const std::size_t size : {std::size_t{0}, sizeof(crossdock_entry) - 1, SIZE_MAX}) {
    LaterEntry later;
    later.known.size = size;
    LaterEntry before;
    before.known.size = size;
    EXPECT_TRUE(failed(crossdock_catalog_entry(catalog, 0, &later.known, &error_), CROSSDOCK_ERROR_INVALID_ARGUMENT));
    EXPECT_EQ(std::memcmp(&later, &before, sizeof later), 0);
  }
}

TEST_F(COptions, ValuesWithoutAMeaningAreRefused) {
  const auto with = [](auto set) {
    crossdock_get_options options{};
    options.size = sizeof options;
    set(options);
    return options;
  };
  EXPECT_TRUE(failed(get(with([](auto& o) { o.wait = 3; })), CROSSDOCK_ERROR_INVALID_ARGUMENT, "wait is 3"));
  EXPECT_TRUE(failed(get(with([](auto& o) { o.wait = -1; })), CROSSDOCK_ERROR_INVALID_ARGUMENT, "wait is -1"));
  EXPECT_TRUE(failed(get(with([](auto& o) { o.validation = 9; })), CROSSDOCK_ERROR_INVALID_ARGUMENT, "validation"));
  EXPECT_TRUE(failed(get(with([](auto& o) { o.device_type = -2; })), CROSSDOCK_ERROR_INVALID_ARGUMENT, "device type"));
  EXPECT_TRUE(failed(get(with([](auto& o) { o.n_columns = 1; })), CROSSDOCK_ERROR_INVALID_ARGUMENT, "columns is NULL"));
}

TEST_F(COptions, ADeviceWithoutADriverIsUnsupported) {
  crossdock_get_options options{};
  options.size = sizeof options;
  options.device_type = ARROW_DEVICE_HEXAGON;
  Reader reader;
  EXPECT_TRUE(failed(crossdock_client_get(client_, crossdock_str("numbers"), &options, &reader, &error_),
                     CROSSDOCK_ERROR_UNSUPPORTED));
}

TEST_F(COptions, ATokenIsDemanded) {
  const crossdock_string uri = crossdock_str("tcp:");
  crossdock_transport_options transports{};
  transports.size = sizeof transports;
  transports.token = crossdock_str("a secret of both");
  crossdock_server_options for_server{};
  for_server.size = sizeof for_server;
  for_server.uris = &uri;
  for_server.n_uris = 1;
  for_server.transports = &transports;
  Server server;
  ASSERT_TRUE(ok(crossdock_serve(&for_server, &server, &error_)));

  const crossdock_string address = crossdock_str(crossdock_server_uri(server, 0));
  Client without;
  EXPECT_TRUE(failed(crossdock_connect(address, nullptr, &without, &error_), CROSSDOCK_ERROR_PERMISSION, "token"));
  crossdock_client_options for_client{};
  for_client.size = sizeof for_client;
  for_client.transports = &transports;
  Client with;
  EXPECT_TRUE(ok(crossdock_connect(address, &for_client, &with, &error_)));
}

TEST_F(COptions, OfAServerReachIt) {
  const crossdock_string uris[] = {crossdock_str("shm:"), crossdock_str("tcp:")};
  crossdock_server_options options{};
  options.size = sizeof options;
  options.uris = uris;
  options.n_uris = 2;
  options.max_connections = 1;
  std::atomic<int> lines = 0;
  options.log = [](void* user, std::int32_t level, crossdock_string text) {
    if (level >= CROSSDOCK_LOG_DEBUG && level <= CROSSDOCK_LOG_ERROR && text.size > 0) {
      ++*static_cast<std::atomic<int>*>(user);
    }
  };
  options.log_user = &lines;
  Server server;
  ASSERT_TRUE(ok(crossdock_serve(&options, &server, &error_)));
  ASSERT_EQ(crossdock_server_n_uris(server), 2U);
  EXPECT_EQ(std::string_view(crossdock_server_uri(server, 0)).substr(0, 4), "shm:");
  EXPECT_EQ(std::string_view(crossdock_server_uri(server, 1)).substr(0, 4), "tcp:");
  EXPECT_EQ(crossdock_server_uri(server, 2), nullptr);

  Client first;
  Client second;
  ASSERT_TRUE(ok(crossdock_connect(crossdock_str(crossdock_server_uri(server, 0)), nullptr, &first, &error_)));
  EXPECT_TRUE(failed(crossdock_connect(crossdock_str(crossdock_server_uri(server, 1)), nullptr, &second, &error_),
                     CROSSDOCK_ERROR_CONNECTION, "connections"));
  EXPECT_TRUE(ok(crossdock_server_close(server, &error_)));
  EXPECT_GT(lines, 0);
}

}  // namespace
}  // namespace crossdock::testing
