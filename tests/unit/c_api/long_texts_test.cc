// Texts of 1 MiB, the most that the interface takes, wherever it takes one: no error repeats them.
#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "samples.h"

namespace crossdock::testing {
namespace {

constexpr std::size_t kLong = std::size_t{1} << 20;
constexpr std::size_t kMostMessage = 4096;  // a few hundred bytes for each text, and what the error says itself

class LongTexts : public CApi {
 protected:
  /// Checks that a call failed, and that its message is bounded.
  void expect_bounded(const std::string& what, crossdock_status status) {
    EXPECT_NE(status, CROSSDOCK_OK) << what;
    const std::string message = crossdock_error_message(error_);
    EXPECT_LT(message.size(), kMostMessage) << what << ": " << message.substr(0, 300);
  }
  crossdock_string long_text(const std::string& start = {}) {
    texts_.push_back(start + std::string(kLong - start.size(), 'x'));
    return {texts_.back().data(), texts_.back().size()};
  }

 private:
  std::deque<std::string> texts_;
};

TEST_F(LongTexts, OfUris) {
  for (const char* start : {"", "x", "shm:", "shm:/", "shm://", "shm:@", "tcp://",
                            "tcp://h:", "tcp://[::", "tcp+tls://", "ucx://", "fabric://", "grpc://", "grpc+tls://",
                            "grpc://h:", "shm:a?", "shm:a?want_data=", "shm:a?stream=", "nothing:"}) {
    const crossdock_string uri = long_text(start);
    Client client;
    expect_bounded(std::string("connect ") + start, crossdock_connect(uri, nullptr, &client, &error_));
    crossdock_server_options options{};
    options.size = sizeof options;
    options.uris = &uri;
    options.n_uris = 1;
    Server server;
    if (std::string_view(start) == "shm:a?") continue;  // a parameter that isn't known is none of ours
    expect_bounded(std::string("serve ") + start, crossdock_serve(&options, &server, &error_));
  }
}

TEST_F(LongTexts, OfNamesAndColumns) {
  publish_numbers("numbers");
  const crossdock_string name = long_text();
  Reader reader;
  Tensors tensors;
  DLManagedTensorVersioned* tensor = nullptr;
  expect_bounded("get", crossdock_client_get(client_, name, nullptr, &reader, &error_));
  expect_bounded("tensor", crossdock_client_get_tensor(client_, name, nullptr, &tensor, &error_));
  expect_bounded("tensors", crossdock_client_get_tensors(client_, name, nullptr, &tensors, &error_));
  expect_bounded("withdraw", crossdock_server_withdraw(server_, name, &error_));
  expect_bounded("update", crossdock_server_update(server_, nullptr, 0, &name, 1, nullptr, &error_));
  Source source;
  Released<ArrowArrayStream> stream;
  array::export_stream(number_stream(1, 1), &stream);
  ASSERT_TRUE(ok(crossdock_source_table(&stream, &source, &error_)));
  expect_bounded("publish", crossdock_server_publish(server_, name, &source, nullptr, &error_));

  crossdock_get_options options{};
  options.size = sizeof options;
  options.columns = &name;
  options.n_columns = 1;
  expect_bounded("columns", crossdock_client_get(client_, crossdock_str("numbers"), &options, &reader, &error_));
}

TEST_F(LongTexts, OfPathsFiltersAndKeys) {
  for (const char* start : {"", "/", "./"}) {
    Source source;
    ASSERT_TRUE(ok(crossdock_source_file(long_text(start), CROSSDOCK_FILE_TRUST, &source, &error_)));
    expect_bounded("path", crossdock_server_publish(server_, crossdock_str("f"), &source, nullptr, &error_));
  }
  for (const char* start : {"", "cuda:", "gpu,", "host:cpu:"}) {
    Queue queue;
    expect_bounded("filter", crossdock_queue_find(long_text(start), {}, &queue, &error_));
  }
  const crossdock_string keys[] = {long_text(), long_text("\xff")};
  for (const crossdock_string& key : keys) {
    const crossdock_named_tensor twice[] = {
        {sizeof(crossdock_named_tensor), &key, 1, FloatTensor(1, 1).managed()},
        {sizeof(crossdock_named_tensor), &key, 1, FloatTensor(1, 1).managed()},
    };
    Source source;
    ASSERT_TRUE(ok(crossdock_source_tensors(twice, 2, &source, &error_)));
    expect_bounded("keys", crossdock_server_publish(server_, crossdock_str("m"), &source, nullptr, &error_));
  }
}

TEST_F(LongTexts, OfTransports) {
  using Member = crossdock_string crossdock_transport_options::*;
  const std::pair<const char*, Member> members[] = {
      {"token", &crossdock_transport_options::token},
      {"certificate", &crossdock_transport_options::tls_certificate_chain},
      {"key", &crossdock_transport_options::tls_private_key},
      {"roots", &crossdock_transport_options::tls_roots},
      {"client roots", &crossdock_transport_options::tls_client_roots},
      {"name", &crossdock_transport_options::tls_server_name},
  };
  for (const auto& [what, member] : members) {
    crossdock_transport_options transports{};
    transports.size = sizeof transports;
    transports.*member = long_text();
    crossdock_client_options options{};
    options.size = sizeof options;
    options.transports = &transports;
    Client client;
    // Nobody listens there.
    expect_bounded(what, crossdock_connect(crossdock_str("tcp+tls://127.0.0.1:1"), &options, &client, &error_));
    crossdock_server_options for_server{};
    const crossdock_string uri = crossdock_str("tcp+tls:");
    for_server.size = sizeof for_server;
    for_server.uris = &uri;
    for_server.n_uris = 1;
    for_server.transports = &transports;
    Server server;
    expect_bounded(what, crossdock_serve(&for_server, &server, &error_));
  }
}

TEST_F(LongTexts, OfSchemas) {
  const std::string text(kLong, 'x');
  for (const bool of_format : {false, true}) {
    ArrowSchema field{};
    field.format = of_format ? text.c_str() : "no such type";
    field.name = of_format ? "f" : text.c_str();
    field.release = [](ArrowSchema* self) { self->release = nullptr; };
    ArrowSchema* children[] = {&field};
    ArrowSchema schema{};
    schema.format = "+s";
    schema.name = "";
    schema.n_children = 1;
    schema.children = children;
    schema.release = [](ArrowSchema* self) { self->release = nullptr; };
    Source source;
    expect_bounded("schema", crossdock_source_batches(&schema, nullptr, 0, &source, &error_));
  }
}

/// A stream that fails with a long text, as a table or as a live stream.
ArrowArrayStream failing_stream() {
  static const std::string text(kLong, 'x');
  ArrowArrayStream stream{};
  stream.get_schema = [](ArrowArrayStream*, ArrowSchema*) { return EIO; };
  stream.get_next = [](ArrowArrayStream*, ArrowArray*) { return EIO; };
  stream.get_last_error = [](ArrowArrayStream*) { return text.c_str(); };
  stream.release = [](ArrowArrayStream* self) { self->release = nullptr; };
  return stream;
}

TEST_F(LongTexts, OfSourcesErrors) {
  ArrowArrayStream stream = failing_stream();
  Source source;
  const crossdock_status status = crossdock_source_table(&stream, &source, &error_);
  EXPECT_NE(status, CROSSDOCK_OK);
  EXPECT_LT(std::strlen(crossdock_error_message(error_)), kMostMessage + 200);
  if (stream.release != nullptr) stream.release(&stream);

  const auto make = [](void*, ArrowArrayStream*, crossdock_error** error) {
    static const std::string text(kLong, 'x');
    return crossdock_error_set(error, CROSSDOCK_ERROR_INVALID_DATA, {text.data(), text.size()});
  };
  ASSERT_TRUE(ok(crossdock_source_factory(make, nullptr, nullptr, &source, &error_)));
  publish("factory", &source);
  Reader reader;
  EXPECT_EQ(crossdock_client_get(client_, crossdock_str("factory"), nullptr, &reader, &error_),
            CROSSDOCK_ERROR_INVALID_DATA);
  EXPECT_LT(std::strlen(crossdock_error_message(error_)), kMostMessage + 200);
}

}  // namespace
}  // namespace crossdock::testing
