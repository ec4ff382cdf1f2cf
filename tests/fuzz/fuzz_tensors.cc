#include <fcntl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/unique_fd.h"
#include "crossdock/exchange/copy.h"
#include "crossdock/session/client.h"
#include "device/region.h"
#include "device/region_address.h"
#include "dissociated/wire.h"
#include "fuzz.h"
#include "transport/registry.h"
#include "transport/transport.h"

/// A server answers a request for tensors with whatever the bytes say, by address or by value: each element of what is
/// returned can be read, and nothing beside the caller's memory is written to.
namespace crossdock {
namespace {

constexpr std::uint16_t kRegion = 7;
constexpr std::size_t kRegionBytes = 4096;

std::shared_ptr<const device::Region> make_region() {
  static const auto region = [] {
    device::RegionWriter writer("fuzz");
    const std::vector<std::byte> bytes(kRegionBytes - device::kRegionStart, std::byte{1});
    writer.append(bytes);
    return device::readable(writer.freeze(), "fuzz");  // mapped
  }();
  return region;
}

/// A client's connection, over which the messages of an input arrive; then it ends.
class Scripted final : public transport::Connection {
 public:
  explicit Scripted(ByteSpan script) : input_(script) {
    agreement_.want_data = 1;
    agreement_.free_data = 2;
    agreement_.counted_leases = true;
    agreement_.same_user = true;
    agreement_.max_body = 1 << 16;
    agreement_.ways = transport::Way::kMap | transport::Way::kMessage;
  }

  const transport::Agreement& agreement() const noexcept override { return agreement_; }
  bool send(ByteSpan, ByteSpan) override { return true; }
  bool send_tagged(std::uint64_t, ByteSpan, ByteSpan) override { return true; }
  std::uint64_t max_message() const noexcept override { return 1 << 16; }
  bool send_body(std::uint64_t, std::span<const ByteSpan>, std::shared_ptr<const void>) override { return true; }
  std::uint64_t max_body() const noexcept override { return 0; }
  std::size_t in_flight() override { return 0; }
  bool below_window(std::size_t) override { return true; }
  std::optional<transport::Incoming> receive() override {
    if (input_.empty()) throw ConnectionError("the script is over");
    const auto kind = input_.number<std::uint8_t>();
    const auto number = input_.number<std::uint8_t>();
    switch (kind % 4) {
      case 0: return metadata(number);
      case 1: return addresses(number);
      case 2: return body(number);
      default:
        message_.assign(5, std::byte{0});
        message_[1] = static_cast<std::byte>(number);
        return transport::Incoming{false, 0, message_};
    }
  }
  void receive_into(std::shared_ptr<transport::BodyMemory> memory) override {
    if (memory) memory_ = std::move(memory);
  }
  std::shared_ptr<const transport::PeerRegion> peer_region(std::uint64_t address, int,
                                                           const transport::InterruptHook&) override {
    if (device::address_region(address) != kRegion) throw ProtocolError("no such region");
    const auto region = make_region();
    return std::make_shared<const transport::PeerRegion>(device::make_address(kRegion, 0), region->size(), region);
  }
  bool prepare_sleep() override { return false; }
  void wake() override {}
  int descriptor() const noexcept override { return bell_.get(); }

 private:
  transport::Incoming metadata(std::uint8_t number) {
    const ByteSpan bytes = input_.take(input_.number<std::uint16_t>());
    const auto prefix = dissociated::write_prefix(dissociated::MessageType::kMetadata, number);
    message_.assign(prefix.begin(), prefix.end());
    message_.insert(message_.end(), bytes.begin(), bytes.end());
    return {false, 0, message_};
  }
  transport::Incoming addresses(std::uint8_t number) {
    const auto count = static_cast<std::size_t>(input_.number<std::uint8_t>() % 4);
    std::vector<dissociated::RemoteBuffer> buffers;
    for (std::size_t i = 0; i < count; ++i) {
      const auto offset = input_.number<std::uint16_t>();
      const auto length = input_.number<std::uint32_t>();
      buffers.push_back({length == 0 ? 0 : device::make_address(kRegion, offset), length});
    }
    dissociated::write_remote_body(buffers, &message_);
    return {true, dissociated::write_tag(number, dissociated::BodyType::kRemote), message_};
  }
  transport::Incoming body(std::uint8_t number) {
    const ByteSpan bytes = input_.take(input_.number<std::uint16_t>());
    std::shared_ptr<std::byte> memory = memory_->allocate(bytes.size());
    std::ranges::copy(bytes, memory.get());
    const ByteSpan there{memory.get(), bytes.size()};
    return {true, dissociated::write_tag(number, dissociated::BodyType::kPacked), there, std::move(memory)};
  }

  fuzz::Input input_;
  transport::Agreement agreement_;
  std::vector<std::byte> message_;
  std::shared_ptr<transport::BodyMemory> memory_ = transport::make_body_pool();
  const UniqueFd bell_{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
};

class ScriptedTransport final : public transport::Transport {
 public:
  explicit ScriptedTransport(ByteSpan script) : script_(script) {}
  std::string_view scheme() const noexcept override { return "fuzz"; }
  transport::Ways ways() const noexcept override { return transport::Way::kMap | transport::Way::kMessage; }
  bool needs_sealed_files() const noexcept override { return false; }
  void check_address(const std::string&) const override { throw UnsupportedError("the script has no server"); }
  std::unique_ptr<transport::Listener> listen(const std::string&, std::uint64_t, std::uint64_t,
                                              LogCallback) const override {
    throw UnsupportedError("the script has no server");
  }
  std::unique_ptr<transport::Connection> connect(const std::string&, const transport::ConnectOptions&, int,
                                                 const transport::InterruptHook&) const override {
    return std::make_unique<Scripted>(script_);
  }

 private:
  const ByteSpan script_;
};

/// Reads every element, unless there are too many because they overlap.
void read_all(const array::Tensor& tensor) {
  constexpr std::int64_t kMost = 1 << 16;
  fuzz::require(tensor.ndim() <= array::kMaxTensorDimensions);
  if (tensor.nbytes() < 0 || tensor.nbytes() > kMost) return;
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.nbytes()));
  exchange::pack(tensor, bytes.data());
}

/// Memory for 6 int16, with bytes before and behind it that must stay as they are.
struct Out {
  static constexpr std::byte kUntouched{0xA5};
  std::array<std::byte, 64 + 12 + 64> bytes;
  array::Tensor tensor;

  explicit Out(bool columns_first) {
    bytes.fill(kUntouched);
    tensor.type = {.code = array::TypeCode::kInt, .bits = 16};
    tensor.extents = array::Extents(2);
    tensor.extents.shape()[0] = 2;
    tensor.extents.shape()[1] = 3;
    tensor.extents.strides()[0] = columns_first ? 2 : 6;
    tensor.extents.strides()[1] = columns_first ? 4 : 2;
    tensor.data = bytes.data() + 64;
  }
  bool is_whole() const {
    const auto untouched = [](std::byte byte) { return byte == kUntouched; };
    return std::all_of(bytes.begin(), bytes.begin() + 64, untouched) &&
           std::all_of(bytes.end() - 64, bytes.end(), untouched);
  }
};

void get(session::Client& client, std::uint8_t how) {
  session::TensorOptions options;
  options.max_tensors = 8;
  options.max_path_bytes = 256;
  options.copy_on_write = how % 4 == 1;
  if (how % 4 < 2) {
    for (const session::NamedTensor& named : client.tensors("t", options)) {
      fuzz::require(!named.path.empty());
      read_all(named.tensor);
    }
  } else if (how % 4 == 2) {
    read_all(client.tensor("t", options));
  } else {
    Out out(how / 4 % 2 == 1);
    options.out = &out.tensor;
    try {
      fuzz::require(client.tensor("t", options).data == out.tensor.data);
    } catch (const Error&) {
    }
    fuzz::require(out.is_whole());
  }
}

}  // namespace
}  // namespace crossdock

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crossdock;
  if (size == 0) return 0;
  auto transports = std::make_shared<transport::TransportRegistry>();
  transports->add(std::make_shared<ScriptedTransport>(fuzz::bytes(data + 1, size - 1)));
  session::ClientOptions options;
  options.transports = std::move(transports);
  session::Client client("fuzz:x", options);
  try {
    get(client, data[0]);
  } catch (const Error&) {
  }
  return 0;
}
