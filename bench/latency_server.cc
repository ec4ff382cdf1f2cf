// Sends one batch at a time: the next goes when all buffers of the one before were freed. Each carries, in its first
// column's first 8 bytes, the time (CLOCK_MONOTONIC) at which it was ready, so that a consumer with `--latency 1` can
// say how long one batch was under way: encoded metadata and addresses out, imported and touched there. The connection
// is the server's own; only the decision when a batch is ready is this program's. Ends when the consumer goes.
#include <poll.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "arguments.h"
#include "crossdock/core/error.h"
#include "device/region_address.h"
#include "dissociated/uri.h"
#include "ipc/metadata.h"
#include "samples.h"
#include "session/consumer.h"
#include "session/server_connection.h"
#include "session/source_pool.h"
#include "tables.h"
#include "transport/shm.h"

namespace crossdock::bench {
namespace {

constexpr int kSets = 64;

class PingStream final : public session::ServerStream {
 public:
  PingStream(std::uint64_t batch_bytes, std::int64_t count)
      : ServerStream({transport::Way::kMap, "it has no other"}),
        count_(count),
        region_(device::Region::make_recycled(64 + batch_bytes * kSets, "crossdock-latency")) {
    const auto schema = float64_schema(kColumns);
    std::uint64_t at = 64;
    const auto allocate = [&](std::uint64_t bytes) {
      std::byte* memory = region_->writable() + at;
      at += bytes;
      return memory;
    };
    const auto batches = make_batches(schema, batch_bytes, kSets, allocate, region_);
    ipc::Encoder encoder;
    const ByteSpan its_schema = encoder.schema(*schema);
    schema_.assign(its_schema.begin(), its_schema.end());
    const ByteSpan its_metadata = encoder.record_batch(batches.front());  // the same for all: same lengths
    metadata_.assign(its_metadata.begin(), its_metadata.end());
    for (const array::RecordBatch& batch : batches) {
      std::vector<dissociated::RemoteBuffer> buffers;
      for (const array::BufferView& view : batch.buffers) {
        if (view.size == 0) {
          buffers.push_back({});
          continue;
        }
        const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(view.data) - region_->data());
        buffers.push_back({device::make_address(0, offset), static_cast<std::uint64_t>(view.size)});
      }
      sets_.push_back(std::move(buffers));
    }
  }

  State peek(session::Outgoing* out) override {
    if (!schema_sent_) {
      *out = {schema_, false, {}, 0, 0, 0};
      return State::kReady;
    }
    if (sent_ == count_) return State::kEnd;
    if (lent_ > 0) return State::kLater;
    const auto& buffers = sets_[static_cast<std::size_t>(sent_) % sets_.size()];
    if (!stamped_) {
      const std::int64_t now = now_ns();
      std::memcpy(region_->writable() + device::address_offset(buffers[1].address), &now, sizeof now);
      stamped_ = true;
    }
    *out = {metadata_, true, buffers, 0, 1, 0};
    return State::kReady;
  }
  void pop() override {
    stamped_ = false;
    if (!schema_sent_) {
      schema_sent_ = true;
      return;
    }
    ++sent_;
    lent_ = kColumns;
  }
  const std::shared_ptr<const device::Region>& region(std::uint32_t) const override { return region_as_sent_; }
  void returned(std::uint32_t, std::uint32_t n) noexcept override { lent_ -= static_cast<int>(n); }

 private:
  std::int64_t count_;
  std::shared_ptr<device::Region> region_;
  std::shared_ptr<const device::Region> region_as_sent_ = region_;
  std::vector<std::byte> schema_;
  std::vector<std::byte> metadata_;
  std::vector<std::vector<dissociated::RemoteBuffer>> sets_;
  bool schema_sent_ = false;
  bool stamped_ = false;
  std::int64_t sent_ = 0;
  int lent_ = 0;
};

void wait_for(int descriptor) {
  pollfd ask{descriptor, POLLIN, 0};
  ::poll(&ask, 1, 500);
}

void serve(const Arguments& arguments) {
  const auto batch_bytes = static_cast<std::uint64_t>(arguments.number("batch-bytes", 64 << 10));
  const std::int64_t count = arguments.number("batches", 100'000);
  session::ServerOptions options;
  options.wait = arguments.wait("wait");
  const auto listener = transport::shm_listen({}, 1, 2, {}, {});
  std::printf("{\"uri\":\"%s\"}\n", listener->uri().c_str());
  std::fflush(stdout);

  std::unique_ptr<transport::Connection> accepted;
  while (!(accepted = listener->accept())) wait_for(listener->descriptor());
  session::ServerConnection connection(
      std::move(accepted), options,
      std::make_shared<session::Consumer>(options.lease_limit,
                                          std::make_shared<session::SourcePool>(session::SourcePool::Options{})),
      [&](const dissociated::Request&, const transport::Connection&,
          const std::shared_ptr<const session::CountedStream>&) {
        return std::make_unique<PingStream>(batch_bytes, count);
      });
  try {
    while (true) {
      session::TurnBudget budget(now_ns());
      if (connection.turn(0, budget) || options.wait == transport::WaitMode::kSpin) continue;
      transport::Connection& transport = connection.connection();
      if (transport.prepare_sleep()) wait_for(transport.descriptor());
      transport.wake();
    }
  } catch (const ConnectionError&) {
    // The consumer has what it wanted.
  }
}

}  // namespace
}  // namespace crossdock::bench

int main(int argc, char** argv) {
  return crossdock::bench::run(argc, argv, {"batch-bytes", "batches", "wait"}, crossdock::bench::serve);
}
