// Times full validation when it is told to, so that ours and a peer's can be measured in turns over the same bytes: of
// the first batch of the Arrow file `--file`, for each line `COLUMN TIMES` on standard input, a line with the
// nanoseconds that array::check_full of that column took on average.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "arguments.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"
#include "ipc/container.h"
#include "samples.h"

namespace crossdock::bench {
namespace {

/// The file's bytes, 64-aligned as a mapping's would be.
class Bytes {
 public:
  explicit Bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) throw InvalidArgumentError("can't read " + path);
    size_ = static_cast<std::size_t>(file.tellg());
    blocks_.resize(size_ / sizeof(Block) + 1);
    file.seekg(0);
    if (!file.read(blocks_.front().bytes, static_cast<std::streamsize>(size_))) {
      throw InvalidArgumentError("can't read all of " + path);
    }
  }
  ByteSpan span() const { return {reinterpret_cast<const std::byte*>(blocks_.front().bytes), size_}; }

 private:
  struct alignas(64) Block {
    char bytes[64];
  };
  std::vector<Block> blocks_;
  std::size_t size_ = 0;
};

array::RecordBatch first_batch(ByteSpan file, const std::string& path) {
  const ipc::Container container = ipc::read_container(file, path, {});
  for (const ipc::ContainerMessage& place : container.messages) {
    if (place.kind != ipc::MessageKind::kRecordBatch) continue;
    const auto metadata =
        file.subspan(static_cast<std::size_t>(place.metadata_offset), static_cast<std::size_t>(place.metadata_length));
    ipc::BatchHeader header;
    ipc::Message::parse(metadata, {}, "the first batch").batch(*container.schema, &header);
    std::vector<array::BufferView> buffers;
    for (const ipc::BufferRange& range : header.buffers) {
      buffers.push_back({file.data() + place.body_offset + range.offset, range.length});
    }
    return ipc::assemble(container.schema, header, buffers, {}, nullptr);
  }
  throw InvalidArgumentError(path + " has no batch");
}

void answer(const Arguments& arguments) {
  const std::string path = arguments.text("file");
  const Bytes file(path);
  const array::RecordBatch batch = first_batch(file.span(), path);
  std::string column;
  std::int64_t times = 0;
  while (std::cin >> column >> times) {
    if (times < 1) throw InvalidArgumentError("times are at least 1");
    std::vector<int> indices;
    const auto schema = array::select_fields(*batch.schema, {column}, &indices);
    const array::RecordBatch chosen = array::select_columns(batch, schema, indices);
    const std::int64_t start = now_ns();
    for (std::int64_t i = 0; i < times; ++i) array::check_full(chosen);
    std::printf("%.2f\n", static_cast<double>(now_ns() - start) / static_cast<double>(times));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace crossdock::bench

int main(int argc, char** argv) { return crossdock::bench::run(argc, argv, {"file"}, crossdock::bench::answer); }
