#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "channel.h"
#include "crossdock/core/error.h"
#include "crossdock/transport/memory.h"

namespace crossdock::transport {
namespace {

class MemoryConnection final : public Connection {
 public:
  MemoryConnection(const Agreement& agreement, std::uint64_t max_message, std::shared_ptr<MemoryChannel> out,
                   std::shared_ptr<MemoryChannel> in)
      : agreement_(agreement), max_message_(max_message), out_(std::move(out)), in_(std::move(in)) {}

  ~MemoryConnection() override {
    in_->close_receiver();
    out_->close_sender();
  }

  const Agreement& agreement() const noexcept override { return agreement_; }

  bool send(ByteSpan head, ByteSpan tail) override {
    check_size(head, tail);
    return out_->push(false, 0, head, tail);
  }
  bool send_tagged(std::uint64_t tag, ByteSpan head, ByteSpan tail) override {
    check_size(head, tail);
    return out_->push(true, tag, head, tail);
  }
  std::uint64_t max_message() const noexcept override { return max_message_; }
  std::size_t in_flight() override { return out_->in_flight(); }
  bool announce(std::uint16_t number, const device::Region& region) override {
    out_->announce(number, region);
    return true;
  }
  bool retire(std::uint16_t number) override {
    out_->retire(number);
    return true;
  }
  bool shares_memory() const noexcept override { return true; }

  std::optional<Incoming> receive() override {
    std::optional<MemoryChannel::Message> message = in_->pop();
    if (!message) return std::nullopt;
    current_ = std::move(*message);
    return Incoming{current_.tagged, current_.tag, {current_.bytes.get(), current_.size}};
  }
  std::shared_ptr<const device::Region> region(std::uint16_t number, int timeout_ms) override {
    return in_->region(number, timeout_ms);
  }

  bool prepare_sleep() override { return in_->prepare_sleep(); }
  void wake() override { in_->wake(); }
  int descriptor() const noexcept override { return in_->descriptor(); }

 private:
  void check_size(ByteSpan head, ByteSpan tail) const {
    if (head.size() > max_message_ || tail.size() > max_message_ - head.size()) {
      throw InvalidArgumentError("memory: a message of " + std::to_string(head.size() + tail.size()) +
                                 " bytes is over this connection's limit of " + std::to_string(max_message_) +
                                 " (MemoryOptions::max_message)");
    }
  }

  const Agreement agreement_;
  const std::uint64_t max_message_;
  const std::shared_ptr<MemoryChannel> out_;
  const std::shared_ptr<MemoryChannel> in_;
  MemoryChannel::Message current_;  // what the last receive() gave out
};

}  // namespace

std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> memory_pair(const Agreement& agreement,
                                                                                const MemoryOptions& options) {
  if (options.queue_messages == 0) {
    throw InvalidArgumentError("memory: MemoryOptions::queue_messages is 0; nothing could ever be sent");
  }
  auto there = std::make_shared<MemoryChannel>(options.queue_messages);
  auto back = std::make_shared<MemoryChannel>(options.queue_messages);
  return {std::make_unique<MemoryConnection>(agreement, options.max_message, there, back),
          std::make_unique<MemoryConnection>(agreement, options.max_message, back, there)};
}

}  // namespace crossdock::transport
