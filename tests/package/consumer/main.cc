// A user's program, with the installed headers and library only: serves a table, gets it back, and catches an error by
// its class. Exits with 1 where they don't work together.
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "crossdock/array/stream.h"
#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "crossdock/version.h"

namespace xd = crossdock;

namespace {

constexpr std::int64_t kRows = 1000;

// One batch of one int64 column, built in an arena: publishing it copies nothing.
class Squares final : public xd::array::BatchStream {
 public:
  explicit Squares(xd::device::Arena& arena)
      : values_(reinterpret_cast<std::int64_t*>(arena.allocate(kRows * sizeof(std::int64_t)))) {
    for (std::int64_t i = 0; i < kRows; ++i) values_[i] = i * i;
    xd::array::Field field;
    field.name = "square";
    field.type.id = xd::array::TypeId::kInt64;
    schema_ = std::make_shared<const xd::array::Schema>(std::vector<xd::array::Field>{field});
  }
  const std::shared_ptr<const xd::array::Schema>& schema() const override { return schema_; }
  std::optional<xd::array::RecordBatch> next() override {
    if (std::exchange(given_, true)) return std::nullopt;
    xd::array::RecordBatch batch;
    batch.schema = schema_;
    batch.num_rows = kRows;
    batch.nodes = {{kRows, 0, 0}};
    batch.buffers = {{nullptr, 0}, {values_, kRows * 8}};
    return batch;
  }

 private:
  std::int64_t* values_;
  std::shared_ptr<const xd::array::Schema> schema_;
  bool given_ = false;
};

}  // namespace

int main() {
  std::cout << "crossdock " << xd::version() << '\n';
  if (xd::version() != CROSSDOCK_VERSION) {
    std::cerr << "the headers are of " << CROSSDOCK_VERSION << '\n';
    return 1;
  }
  xd::session::Server server;
  const auto arena = xd::session::Context::default_context()->make_arena();
  server.publish("squares", xd::session::Source::table(std::make_unique<Squares>(*arena)));

  xd::session::Client client(server.uri());
  const auto batch = client.get("squares")->next();
  const auto* squares = static_cast<const std::int64_t*>(batch->buffers[1].data);
  if (batch->num_rows != kRows || squares[31] != 961 || server.stats().sources.at(0).bytes_copied != 0) {
    std::cerr << "the table came wrong, or was copied\n";
    return 1;
  }
  try {
    client.get("cubes");
  } catch (const xd::NotFoundError& error) {
    std::cout << error.what() << '\n';
    return 0;
  }
  std::cerr << "a name that isn't there was given\n";
  return 1;
}
