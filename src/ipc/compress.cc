#include <algorithm>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "ipc/compression.h"
#include "ipc/internal/codec.h"
#include "ipc/internal/output_memory.h"

namespace crossdock::ipc {
namespace {

constexpr std::uint64_t kCompressedAlignment = 8;
constexpr std::size_t kWorthCompressThreads = 256 << 10;
constexpr std::byte kPadding[kBufferAlignment]{};

struct CompressJob {
  std::size_t buffer;
  std::size_t at;       // offset in `scratch`: the length, then the compressed bytes
  std::size_t written;  // 0 if not smaller
};

}  // namespace

struct Compressor::Impl {
  Codec codec = Codec::kNone;
  int level = 0;
  Parallel parallel;
  OutputMemory memory;
  std::shared_ptr<std::byte> scratch;
  std::size_t capacity = 0;
  std::size_t needed = 0;  // bytes of `scratch` that this batch needs
  std::vector<BufferEncoder> encoders;
  std::vector<CompressJob> jobs;
  CompressedBody out;

  void plan(const array::RecordBatch& batch) {
    jobs.clear();
    needed = 0;
    for (std::size_t i = 0; i < batch.buffers.size(); ++i) {
      const auto size = static_cast<std::size_t>(batch.buffers[i].size);
      if (size == 0) continue;
      jobs.push_back({i, needed, 0});
      needed += align_up(kLengthPrefix + BufferEncoder::bound(codec, size), kCompressedAlignment);
    }
    if (needed <= capacity) return;
    scratch.reset();
    capacity = 0;
    scratch = memory.take(needed);
    capacity = needed;
  }

  void run(const array::RecordBatch& batch) {
    run_jobs(
        jobs.size(), &encoders, parallel && needed >= kWorthCompressThreads ? &parallel : nullptr,
        [&](std::size_t job) { return batch.buffers[jobs[job].buffer].size; },
        [&](BufferEncoder& encoder, std::size_t job) { encode(batch, &jobs[job], encoder); });
  }

  void encode(const array::RecordBatch& batch, CompressJob* job, BufferEncoder& encoder) const noexcept {
    const array::BufferView& view = batch.buffers[job->buffer];
    const ByteSpan from(static_cast<const std::byte*>(view.data), static_cast<std::size_t>(view.size));
    std::byte* const to = scratch.get() + job->at;
    const std::size_t written =
        encoder.encode(codec, level, from, {to + kLengthPrefix, BufferEncoder::bound(codec, from.size())});
    job->written = written < from.size() ? written : 0;
    store_le<std::int64_t>(to, job->written == 0 ? kStoredRaw : view.size);
  }

  void lay_out(const array::RecordBatch& batch) {
    out.layout.codec = codec;
    out.layout.buffers.resize(batch.buffers.size());
    out.pieces.clear();
    std::size_t end = 0;
    std::size_t job = 0;
    for (std::size_t i = 0; i < batch.buffers.size(); ++i) {
      out.layout.buffers[i] = {static_cast<std::int64_t>(end), 0};
      if (job == jobs.size() || jobs[job].buffer != i) continue;
      const CompressJob& done = jobs[job++];
      std::size_t size = kLengthPrefix + done.written;
      out.pieces.emplace_back(scratch.get() + done.at, size);
      if (done.written == 0) {
        const auto raw = static_cast<std::size_t>(batch.buffers[i].size);
        out.pieces.emplace_back(static_cast<const std::byte*>(batch.buffers[i].data), raw);
        size += raw;
      }
      out.layout.buffers[i].length = static_cast<std::int64_t>(size);
      const std::size_t padding = align_up(size, kCompressedAlignment) - size;
      if (padding > 0) out.pieces.emplace_back(kPadding, padding);
      end += size + padding;
    }
    const std::size_t rest = align_up(end, kBufferAlignment) - end;
    if (rest > 0) out.pieces.emplace_back(kPadding, rest);
    out.layout.body_length = static_cast<std::int64_t>(end + rest);
  }
};

Compressor::Compressor(Codec codec, std::optional<int> level, Parallel parallel) : impl_(std::make_unique<Impl>()) {
  if (codec == Codec::kNone) throw InvalidArgumentError("a Compressor needs a codec: LZ4_FRAME or ZSTD");
  const Levels levels = levels_of(codec);
  impl_->codec = codec;
  impl_->level = level.value_or(levels.usual);
  impl_->parallel = std::move(parallel);
  if (impl_->level < levels.lowest || impl_->level > levels.highest) {
    throw InvalidArgumentError("compression level " + std::to_string(impl_->level) + ": " + codec_name(codec) +
                               " has levels " + std::to_string(levels.lowest) + " to " +
                               std::to_string(levels.highest));
  }
}
Compressor::~Compressor() = default;
Compressor::Compressor(Compressor&&) noexcept = default;
Compressor& Compressor::operator=(Compressor&&) noexcept = default;

const CompressedBody& Compressor::compress(const array::RecordBatch& batch) {
  if (!batch.host_readable()) {
    throw InvalidArgumentError("compressing a record batch: the host can't read its memory; copy it to the host first");
  }
  impl_->plan(batch);
  impl_->run(batch);
  impl_->lay_out(batch);
  return impl_->out;
}

}  // namespace crossdock::ipc
