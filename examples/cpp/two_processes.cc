// One program, two processes: the parent serves a live stream, and its child reads it, batch by batch.
//
// fork() comes first: a server and a client belong to the process that made them.
#include <crossdock/crossdock.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace xd = crossdock;

namespace {

// Gives batches of squares as they are asked for.
class Squares final : public xd::array::BatchStream {
 public:
  explicit Squares(int batches) : schema_(table_.schema()), left_(batches) {}
  const std::shared_ptr<const xd::array::Schema>& schema() const override { return schema_; }
  std::optional<xd::array::RecordBatch> next() override {
    if (left_-- == 0) return std::nullopt;
    std::vector<std::int64_t> squares(1000);
    for (std::int64_t& square : squares) {
      square = next_ * next_;
      ++next_;
    }
    square_.append(std::move(squares));  // takes the vector's memory
    return table_.finish();
  }

 private:
  xd::array::BatchBuilder table_;
  xd::array::ColumnBuilder<std::int64_t>& square_ = table_.add<std::int64_t>("square");
  std::shared_ptr<const xd::array::Schema> schema_;
  std::int64_t next_ = 0;
  int left_;
};

int consume(int uri_from) {
  std::string uri(256, '\0');
  const ssize_t size = ::read(uri_from, uri.data(), uri.size());
  if (size <= 0) return 1;
  uri.resize(static_cast<std::size_t>(size));
  xd::session::Client client(uri);
  std::int64_t rows = 0;
  std::int64_t last = 0;
  for (const xd::array::RecordBatch& batch : client.get("squares")) {
    const auto squares = batch.column<std::int64_t>("square").values();
    rows += static_cast<std::int64_t>(squares.size());
    last = squares.back();
  }
  std::cout << rows << " rows, the last " << last << std::endl;
  return 0;
}

int serve(int uri_to, pid_t child) {
  xd::session::Server server;
  server.publish("squares", xd::session::Source::live(std::make_unique<Squares>(5)));
  const std::string& uri = server.uri();
  if (::write(uri_to, uri.data(), uri.size()) != static_cast<ssize_t>(uri.size())) return 1;
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main() {
  int pipe[2];
  if (::pipe(pipe) != 0) return 1;
  const pid_t child = ::fork();
  if (child < 0) return 1;
  try {
    ::close(pipe[child == 0 ? 1 : 0]);  // of the other process
    return child == 0 ? consume(pipe[0]) : serve(pipe[1], child);
  } catch (const xd::Error& error) {
    std::cerr << xd::error_name(error.code()) << ": " << error.what() << '\n';
    return 1;
  }
}
