#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "crossdock/core/error.h"
#include "link.h"
#include "transport/memory.h"

namespace crossdock::transport {
namespace {

class MemoryConnection final : public Connection {
 public:
  MemoryConnection(const Agreement& agreement, const MemoryOptions& options, std::shared_ptr<MemoryLink> link, int end)
      : agreement_(agreement),
        max_message_(options.max_message),
        max_body_(options.max_body),
        shares_memory_(options.shares_memory),
        link_(std::move(link)),
        end_(end) {}
  ~MemoryConnection() override { link_->close(end_); }

  const Agreement& agreement() const noexcept override { return agreement_; }

  bool send(ByteSpan head, ByteSpan tail) override {
    check_size(head, tail);
    return link_->push(end_, false, 0, std::array{head, tail});
  }
  bool send_tagged(std::uint64_t tag, ByteSpan head, ByteSpan tail) override {
    check_size(head, tail);
    return link_->push(end_, true, tag, std::array{head, tail});
  }
  std::uint64_t max_message() const noexcept override { return max_message_; }
  bool send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::shared_ptr<const void>) override {
    std::uint64_t size = 0;
    for (const ByteSpan part : parts) size += part.size();
    if (size > max_body_) {
      throw InvalidArgumentError("memory: a body of " + std::to_string(size) +
                                 " bytes is over this connection's limit of " + std::to_string(max_body_) +
                                 " (MemoryOptions::max_body)");
    }
    return link_->push(end_, true, tag, parts, true);
  }
  std::uint64_t max_body() const noexcept override { return max_body_; }
  std::size_t in_flight() override { return link_->in_flight(end_); }
  bool below_window(std::size_t window) override { return link_->below_window(end_, window); }
  bool announce(std::uint16_t number, const device::Region& region) override {
    if (!shares_memory_) throw std::logic_error("memory: this connection was made to share no memory");
    link_->announce(end_, number, region);
    return true;
  }
  bool retire(std::uint16_t number) override {
    link_->retire(end_, number);
    return true;
  }
  bool shares_memory() const noexcept override { return shares_memory_; }

  std::optional<Incoming> receive() override {
    std::optional<MemoryLink::Message> message = link_->pop(end_);
    if (!message) return std::nullopt;
    if (message->body) {
      if (body_memory_) {
        std::shared_ptr<std::byte> moved = body_memory_->allocate(message->size);
        if (message->size > 0) std::memcpy(moved.get(), message->bytes.get(), message->size);
        message->bytes = std::move(moved);
      }
      return Incoming{true, message->tag, {message->bytes.get(), message->size}, message->bytes};
    }
    current_ = std::move(*message);
    return Incoming{current_.tagged, current_.tag, {current_.bytes.get(), current_.size}};
  }
  void receive_into(std::shared_ptr<BodyMemory> memory) override { body_memory_ = std::move(memory); }
  std::shared_ptr<const device::Region> region(std::uint16_t number, int timeout_ms,
                                               const InterruptHook& interrupted) override {
    return link_->region(end_, number, timeout_ms, interrupted);
  }
  bool knows_region(std::uint16_t number) override { return link_->knows_region(end_, number); }

  bool readable() const override { return link_->readable(end_); }
  bool prepare_sleep() override { return link_->prepare_sleep(end_); }
  void wake() override { link_->wake(end_); }
  int descriptor() const noexcept override { return link_->descriptor(end_); }

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
  const std::uint64_t max_body_;
  const bool shares_memory_;
  const std::shared_ptr<MemoryLink> link_;
  const int end_;
  std::shared_ptr<BodyMemory> body_memory_;
  MemoryLink::Message current_;  // the message that the last receive() returned
};

}  // namespace

std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> memory_pair(const Agreement& agreement,
                                                                                const MemoryOptions& options) {
  if (options.queue_messages == 0) {
    throw InvalidArgumentError("memory: MemoryOptions::queue_messages is 0: no message could be sent");
  }
  const auto link = std::make_shared<MemoryLink>(options.queue_messages);
  return {std::make_unique<MemoryConnection>(agreement, options, link, 0),
          std::make_unique<MemoryConnection>(agreement, options, link, 1)};
}

}  // namespace crossdock::transport
