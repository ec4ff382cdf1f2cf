// Decoding compressed bodies, and the codec's library alone on the same frames: on one thread, and on as many as there
// are cores. Prints one line of JSON: nanoseconds for one body, each the fastest of its repetitions, in turns.
//
//   decompress lz4|zstd COLUMNS ROWS REPETITIONS
#include <lz4frame.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ipc/compression.h"

namespace {

using namespace crossdock;

constexpr std::size_t kPrefix = 8;

struct Body {
  std::vector<std::vector<std::int64_t>> columns;
  array::RecordBatch batch;
  std::vector<std::byte> metadata;
  std::vector<std::byte> bytes;
};

/// Counters with some noise: they compress as tables of measurements do, to a third or so.
Body make_body(ipc::Codec codec, int columns, std::int64_t rows) {
  Body out;
  std::mt19937_64 random(1);
  std::vector<array::Field> fields;
  for (int c = 0; c < columns; ++c) {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < rows; ++i) values.push_back(i * 10 + static_cast<std::int64_t>(random() % 1000));
    out.columns.push_back(std::move(values));
    array::Field field;
    field.name = "c" + std::to_string(c);
    field.type.id = array::TypeId::kInt64;
    fields.push_back(std::move(field));
    out.batch.nodes.push_back({rows, 0, 0});
    out.batch.buffers.push_back({});
    out.batch.buffers.push_back({out.columns.back().data(), rows * 8});
  }
  out.batch.schema = std::make_shared<const array::Schema>(std::move(fields));
  out.batch.num_rows = rows;
  ipc::Compressor compressor(codec);
  const ipc::CompressedBody& made = compressor.compress(out.batch);
  ipc::Encoder encoder;
  const ByteSpan metadata = encoder.record_batch(out.batch, &made.layout);
  out.metadata.assign(metadata.begin(), metadata.end());
  for (const ByteSpan piece : made.pieces) out.bytes.insert(out.bytes.end(), piece.begin(), piece.end());
  return out;
}

void run_threads(int most, const std::function<void(int)>& work) {
  const int n = std::min(most, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<std::jthread> helpers;
  for (int i = 1; i < n; ++i) helpers.emplace_back(work, i);
  work(0);
}

/// The library alone, with contexts and memory that are used again.
class Alone {
 public:
  Alone(const Body& body, ipc::Codec codec) : body_(body), codec_(codec) {
    ipc::Message::parse(body.metadata, {}, "bench").batch(*body.batch.schema, &header_);
    memory_.resize(body.batch.buffers.size());
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      memory_[i].resize(static_cast<std::size_t>(body.batch.buffers[i].size));
    }
  }

  void decode(bool threads) {
    std::atomic<std::size_t> next{0};
    const std::function<void(int)> work = [&](int) {
      LZ4F_dctx* lz4 = nullptr;
      if (codec_ == ipc::Codec::kLz4Frame) LZ4F_createDecompressionContext(&lz4, LZ4F_VERSION);
      ZSTD_DCtx* zstd = codec_ == ipc::Codec::kZstd ? ZSTD_createDCtx() : nullptr;
      for (std::size_t i = next++; i < memory_.size(); i = next++) decode_one(i, lz4, zstd);
      LZ4F_freeDecompressionContext(lz4);
      ZSTD_freeDCtx(zstd);
    };
    if (threads) {
      run_threads(static_cast<int>(memory_.size()), work);
    } else {
      work(0);
    }
  }

 private:
  void decode_one(std::size_t i, LZ4F_dctx* lz4, ZSTD_DCtx* zstd) {
    const ipc::BufferRange& range = header_.buffers[i];
    if (range.length == 0) return;
    const std::byte* from = body_.bytes.data() + range.offset + kPrefix;
    const std::size_t size = static_cast<std::size_t>(range.length) - kPrefix;
    std::vector<std::byte>& to = memory_[i];
    if (zstd != nullptr) {
      if (ZSTD_decompressDCtx(zstd, to.data(), to.size(), from, size) != to.size()) std::abort();
      return;
    }
    std::size_t written = to.size();
    std::size_t read = size;
    LZ4F_decompressOptions_t options{};
    options.stableDst = 1;
    if (LZ4F_decompress(lz4, to.data(), &written, from, &read, &options) != 0 || written != to.size()) std::abort();
  }

  const Body& body_;
  ipc::Codec codec_;
  ipc::BatchHeader header_;
  std::vector<std::vector<std::byte>> memory_;
};

template <class Call>
void keep_fastest(double* best, const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  const auto taken = std::chrono::steady_clock::now() - start;
  *best = std::min(*best, std::chrono::duration<double, std::nano>(taken).count());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "decompress lz4|zstd COLUMNS ROWS REPETITIONS\n";
    return 2;
  }
  const ipc::Codec codec = std::string(argv[1]) == "zstd" ? ipc::Codec::kZstd : ipc::Codec::kLz4Frame;
  const Body body = make_body(codec, std::atoi(argv[2]), std::atoll(argv[3]));
  Alone alone(body, codec);
  ipc::Decompressor one;
  ipc::Decompressor many({}, run_threads);
  ipc::BatchHeader header;
  std::vector<array::BufferView> views;
  const auto ours = [&](ipc::Decompressor& decompressor) {
    ipc::Message::parse(body.metadata, {}, "bench").batch(*body.batch.schema, &header);
    decompressor.decompress(*body.batch.schema, body.bytes, nullptr, "bench", &header, &views);
  };
  double times[4];
  std::fill(std::begin(times), std::end(times), std::numeric_limits<double>::max());
  for (int i = 0; i < std::atoi(argv[4]); ++i) {
    keep_fastest(&times[0], [&] { ours(one); });
    keep_fastest(&times[1], [&] { alone.decode(false); });
    keep_fastest(&times[2], [&] { ours(many); });
    keep_fastest(&times[3], [&] { alone.decode(true); });
  }
  const double ratio = static_cast<double>(body.bytes.size()) / static_cast<double>(body.batch.nbytes());
  std::cout << "{\"ours\": " << times[0] << ", \"library\": " << times[1] << ", \"ours_threads\": " << times[2]
            << ", \"library_threads\": " << times[3] << ", \"bytes\": " << body.batch.nbytes()
            << ", \"compressed_to\": " << ratio << "}\n";
  return 0;
}
