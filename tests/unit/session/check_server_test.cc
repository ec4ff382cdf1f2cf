#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "crossdock/session/server.h"
#include "crossdock/session/transports.h"
#include "support/leftovers.h"
#include "support/temporary_folder.h"

/// Server::check() against the constructor of Server.
namespace crossdock::session {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

class CheckServer : public testing::NoLeftovers {
 protected:
  CheckServer() { std::ofstream(folder_ / "file") << "of another program"; }

  const TemporaryFolder folder_;
};

struct Answer {
  ErrorCode code;
  std::string text;
  friend bool operator==(const Answer&, const Answer&) = default;
};

std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  return out << error_name(answer.code) << ": " << answer.text;
}

template <typename Call>
std::optional<Answer> error_of(Call call) {
  try {
    call();
    return std::nullopt;
  } catch (const Error& error) {
    return Answer{error.code(), error.what()};
  }
}

ServerOptions at(std::string uri) {
  ServerOptions options;
  options.uris = {std::move(uri)};
  return options;
}

TEST_F(CheckServer, SaysWhatListeningWouldSay) {
  const std::vector<std::string> uris = {
      "",
      "shm",
      "nosuchscheme:x",
      "shm:a b",
      "shm://tmp/x",
      "shm:@x",
      "shm:%00x",
      "shm:" + std::string(60, 'x'),
      "shm:/" + std::string(200, 'x') + "/y.sock",
      "shm:" + (folder_ / "no where/x.sock"),
      "shm:" + (folder_ / "no where/../x.sock"),
      "shm:" + (folder_ / "file/x.sock"),
      "shm:" + (folder_ / "file"),
      "shm:" + (folder_ / ""),
      "shm:/run/../tmp/no-such-folder/x",
      "shm:/run/no-such-folder/",
      "shm:/run/no-such-folder/..",
      "shm:x?stream=data",
      "shm:x?want_data=1&free_data=1",
      "tcp://:99999",
      "tcp:127.0.0.1:0",
      "tcp://127.0.0.1:0/path",
      "tcp://user@127.0.0.1:0",
      "tcp://[::1",
      "tcp://::1:7700",
      "tcp+tls://127.0.0.1:0",
      "ucx://:99999",
      "fabric://:99999",
      "grpc://127.0.0.1:0",
  };
  for (const std::string& uri : uris) {
    const auto checked = error_of([&] { Server::check(at(uri)); });
    ASSERT_TRUE(checked) << uri;
    EXPECT_EQ(*checked, error_of([&] { const Server server(at(uri)); })) << uri;
  }
}

TEST_F(CheckServer, OfAnAddressThatIsGivenTwice) {
  ServerOptions options;
  for (const char* uri : {"shm:twice", "tcp://127.0.0.1:7799"}) {
    options.uris = {uri, "shm:", uri};
    EXPECT_THROW(Server::check(options), UriError);
    EXPECT_THROW(Server{options}, UriError);
  }
  options.uris = {"shm:", "shm:", "tcp:", "tcp:", "tcp://127.0.0.1:0", "tcp://127.0.0.1:0"};
  EXPECT_NO_THROW(Server{options}) << "each gets another one";
}

TEST_F(CheckServer, OfAFolderThatMayNotBeWrittenTo) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const std::string folder = folder_ / "mine";
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const auto checked = error_of([&] { Server::check(at("shm:" + folder + "/x.sock")); });
  ASSERT_TRUE(checked);
  EXPECT_EQ(checked->code, ErrorCode::kPermission);
}

TEST_F(CheckServer, OfUrisThatAreForOtherUsers) {
  ServerOptions options = at("shm:name");
  options.transports = make_transports({.shm = {.any_user = true}});
  const auto checked = error_of([&] { Server::check(options); });
  ASSERT_TRUE(checked);
  EXPECT_EQ(checked->code, ErrorCode::kUri);
  EXPECT_EQ(*checked, error_of([&] { const Server server(options); }));
}

TEST_F(CheckServer, SaysWhatIsWrongWithOptions) {
  ServerOptions options;
  options.window = 0;
  EXPECT_THROW(Server::check(options), InvalidArgumentError);
  options = {};
  options.uris.clear();
  EXPECT_THROW(Server::check(options), InvalidArgumentError);
  options = {};
  // Wrong addresses of Flight, whose module isn't here: tests/python/test_serve_config.py.
  options.flight.uri = "grpc://127.0.0.1:0";
  options.flight.token = "secret";
  options.flight.ticket_keys = {"too short"};
  const auto checked = error_of([&] { Server::check(options); });
  ASSERT_TRUE(checked);
  EXPECT_EQ(checked->code, ErrorCode::kInvalidArgument) << *checked;
}

TEST_F(CheckServer, NeedsNothingThatIsThereAtTheStartAlone) {
  const std::string socket = folder_ / "x.sock";
  const Server running(at("shm:" + socket));
  for (const std::string& uri :
       {std::string("shm:"), std::string("shm:a-name"), "shm:" + socket, "shm:" + (folder_ / "y.sock"),
        std::string("shm:/run/no-such-folder-yet/x.sock"), std::string("shm:/run/./no-such-folder-yet/x.sock"),
        std::string("tcp:"), std::string("tcp://*:0"), std::string("tcp://host.invalid:7700")}) {
    EXPECT_EQ(error_of([&] { Server::check(at(uri)); }), std::nullopt) << uri;
  }
  // It has made no file.
  EXPECT_FALSE(std::filesystem::exists(folder_ / "y.sock"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "y.sock.lock"));
}

}  // namespace
}  // namespace crossdock::session
