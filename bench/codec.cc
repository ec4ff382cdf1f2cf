// Times the codec when it is told to, so that ours and a peer's can be measured in turns: for each line
// `OPERATION COLUMNS TIMES` on standard input, a line with the nanoseconds that one operation took on average.
//   encode   a batch of one row to IPC metadata
//   decode   that metadata and its body to an exported ArrowArray with all its children, and its release
//   checked  the same with array::check_structure between, as a Reader does it
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "arguments.h"
#include "crossdock/array/record_batch.h"
#include "crossdock/core/error.h"
#include "ipc/metadata.h"
#include "samples.h"
#include "tables.h"

namespace crossdock::bench {
namespace {

class Codec {
 public:
  explicit Codec(int columns)
      : schema_(float64_schema(columns)),
        batch_(make_heap_batches(schema_, static_cast<std::uint64_t>(columns) * sizeof(double), 1).front()) {
    const ByteSpan encoded = encoder_.record_batch(batch_);
    metadata_.resize((encoded.size() + 7) / 8);  // 8-aligned, as a transport gives it
    std::memcpy(metadata_.data(), encoded.data(), encoded.size());
    metadata_bytes_ = encoded.size();
    buffers_ = batch_.buffers;
  }

  void encode() { total_ += encoder_.record_batch(batch_).size(); }

  void decode(bool check) {
    const ByteSpan metadata = std::as_bytes(std::span(metadata_)).first(metadata_bytes_);
    const ipc::Message message = ipc::Message::parse(metadata, {}, "message 1");
    message.batch(*schema_, &header_);
    array::RecordBatch batch = ipc::assemble(schema_, header_, buffers_, {}, batch_.owner);
    if (check) array::check_structure(batch);
    ArrowDeviceArray out;
    array::export_batch(std::move(batch), &out);
    total_ += static_cast<std::size_t>(out.array.n_children);
    out.array.release(&out.array);
  }

  std::size_t total() const { return total_; }

 private:
  std::shared_ptr<const array::Schema> schema_;
  array::RecordBatch batch_;
  ipc::Encoder encoder_;
  ipc::BatchHeader header_;
  std::vector<std::uint64_t> metadata_;
  std::size_t metadata_bytes_ = 0;
  std::vector<array::BufferView> buffers_;
  std::size_t total_ = 0;
};

double time_of(Codec& codec, const std::string& operation, std::int64_t times) {
  const std::int64_t start = now_ns();
  if (operation == "encode") {
    for (std::int64_t i = 0; i < times; ++i) codec.encode();
  } else if (operation == "decode" || operation == "checked") {
    const bool check = operation == "checked";
    for (std::int64_t i = 0; i < times; ++i) codec.decode(check);
  } else {
    throw InvalidArgumentError("the operations are encode, decode and checked, not " + operation);
  }
  return static_cast<double>(now_ns() - start) / static_cast<double>(times);
}

void answer(const Arguments&) {
  std::map<int, Codec> codecs;
  std::string operation;
  int columns = 0;
  std::int64_t times = 0;
  while (std::cin >> operation >> columns >> times) {
    if (columns < 1 || times < 1) throw InvalidArgumentError("columns and times are at least 1");
    const double ns = time_of(codecs.try_emplace(columns, columns).first->second, operation, times);
    std::printf("%.2f\n", ns);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace crossdock::bench

int main(int argc, char** argv) { return crossdock::bench::run(argc, argv, {}, crossdock::bench::answer); }
