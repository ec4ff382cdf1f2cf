#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "crossdock/core/error.h"
#include "ipc/compression.h"
#include "ipc/internal/batch_checks.h"
#include "ipc/internal/codec.h"
#include "ipc/internal/output_memory.h"

namespace crossdock::ipc {
namespace {

constexpr std::uintptr_t kRawAlignment = 8;
// Below this size a second thread costs more than it saves.
constexpr std::int64_t kWorthDecompressThreads = 1 << 20;

/// One buffer to write: decoded, or copied because its address isn't aligned.
struct DecompressJob {
  std::size_t buffer;
  ByteSpan from;
  std::int64_t at;  // offset in the new memory
  std::int64_t size;
  bool raw;
};

bool is_aligned(const std::byte* data) noexcept { return reinterpret_cast<std::uintptr_t>(data) % kRawAlignment == 0; }

}  // namespace

struct Decompressor::Impl {
  Limits limits;
  Parallel parallel;
  OutputMemory memory;
  std::vector<BufferDecoder> decoders;
  std::vector<DecompressJob> jobs;
  std::vector<const char*> faults;

  [[noreturn]] static void fail(const char* where, Codec codec, std::size_t buffer, const std::string& what) {
    throw InvalidDataError(std::string(where) + ": buffer " + std::to_string(buffer) + ", compressed with " +
                           codec_name(codec) + ": " + what);
  }

  /// Lists the buffers to write. Returns the number of bytes that they take. Allocates nothing for the data yet.
  std::int64_t plan(ByteSpan body, bool body_lives, const char* where, BatchHeader* header,
                    std::vector<array::BufferView>* views) {
    jobs.clear();
    std::int64_t total = 0;
    for (std::size_t i = 0; i < header->buffers.size(); ++i) {
      BufferRange& range = header->buffers[i];
      (*views)[i] = {};
      if (range.length == 0) continue;
      if (range.length < kLengthPrefix) {
        fail(where, header->codec, i,
             "its " + std::to_string(range.length) + " bytes are too few for its length prefix");
      }
      const ByteSpan bytes =
          body.subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.length));
      const auto claimed = load_le<std::int64_t>(bytes.data());
      const ByteSpan from = bytes.subspan(static_cast<std::size_t>(kLengthPrefix));
      const auto stored = static_cast<std::int64_t>(from.size());
      const bool raw = claimed == kStoredRaw;
      const std::int64_t size = raw ? stored : claimed;
      if (size < 0) fail(where, header->codec, i, "its length prefix is " + std::to_string(claimed));
      range.length = size;
      if (size == 0 || (raw && body_lives && is_aligned(from.data()))) {
        // An empty frame is decoded too, to check it.
        if (!raw) jobs.push_back({i, from, total, 0, false});
        if (size > 0) (*views)[i] = {from.data(), size};
        continue;
      }
      if (!raw && size > most_decompressed(header->codec, stored)) {
        fail(where, header->codec, i,
             "its length prefix is " + std::to_string(size) + ", more than its " + std::to_string(stored) +
                 " compressed bytes can hold");
      }
      if (size > limits.max_decompressed_bytes - total) {
        throw InvalidDataError(std::string(where) + ": the decompressed body would be larger than the limit of " +
                               std::to_string(limits.max_decompressed_bytes) +
                               " bytes; raise the limit if its source is trusted");
      }
      jobs.push_back({i, from, total, size, raw});
      total = static_cast<std::int64_t>(align_up(static_cast<std::uint64_t>(total + size), kBufferAlignment));
    }
    return total;
  }

  void run(Codec codec, std::byte* to, std::int64_t total) {
    faults.assign(jobs.size(), nullptr);
    run_jobs(
        jobs.size(), &decoders, parallel && total >= kWorthDecompressThreads ? &parallel : nullptr,
        [&](std::size_t i) { return jobs[i].size; },
        [&](BufferDecoder& decoder, std::size_t i) {
          const DecompressJob& job = jobs[i];
          const MutableByteSpan target(to + job.at, static_cast<std::size_t>(job.size));
          if (job.raw) {
            std::memcpy(target.data(), job.from.data(), target.size());
          } else {
            faults[i] = decoder.decode(codec, job.from, target);
          }
        });
  }
};

Decompressor::Decompressor(const Limits& limits, Parallel parallel) : impl_(std::make_unique<Impl>()) {
  impl_->limits = limits;
  impl_->parallel = std::move(parallel);
}
Decompressor::~Decompressor() = default;
Decompressor::Decompressor(Decompressor&&) noexcept = default;
Decompressor& Decompressor::operator=(Decompressor&&) noexcept = default;

std::shared_ptr<const void> Decompressor::decompress(const array::Schema& schema, ByteSpan body,
                                                     std::shared_ptr<const void> body_owner, const char* where,
                                                     BatchHeader* header, std::vector<array::BufferView>* views) {
  if (header->codec == Codec::kNone || static_cast<std::int64_t>(body.size()) != header->body_length) {
    throw InvalidArgumentError(std::string(where) + ": decompressing a body of " + std::to_string(body.size()) +
                               " bytes, but its header says " + std::to_string(header->body_length) + " and codec " +
                               codec_name(header->codec));
  }
  views->resize(header->buffers.size());
  const std::int64_t total = impl_->plan(body, body_owner != nullptr, where, header, views);
  // Finds lengths that don't fit the metadata before anything is decoded.
  check_lengths(schema, where, header);
  std::shared_ptr<std::byte> memory;
  if (!impl_->jobs.empty()) {
    memory = impl_->memory.take(static_cast<std::size_t>(total));
    impl_->run(header->codec, memory.get(), total);
  }
  const bool views_body = std::ranges::any_of(*views, [](const array::BufferView& view) { return view.size > 0; });
  for (std::size_t i = 0; i < impl_->jobs.size(); ++i) {
    const DecompressJob& job = impl_->jobs[i];
    if (impl_->faults[i] != nullptr) Impl::fail(where, header->codec, job.buffer, impl_->faults[i]);
    if (job.size > 0) (*views)[job.buffer] = {memory.get() + job.at, job.size};
  }
  header->codec = Codec::kNone;
  std::int64_t end = 0;
  for (BufferRange& range : header->buffers) {
    range.offset = end;
    end = static_cast<std::int64_t>(align_up(static_cast<std::uint64_t>(end + range.length), kBufferAlignment));
  }
  header->body_length = end;
  if (!memory) return body_owner;
  if (!views_body) return memory;
  return std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(std::move(memory),
                                                                                               std::move(body_owner));
}

}  // namespace crossdock::ipc
