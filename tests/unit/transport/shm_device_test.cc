// Regions of a device's memory over shm: announced by their driver's handle.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <thread>

#include "device/memory_handle.h"
#include "device/sim.h"
#include "shm_support.h"
#include "transport/shm/packets.h"
#include "transport/shm/ring_memory.h"
#include "transport/shm/socket.h"

namespace crossdock::transport::shm_test {
namespace {

using device::BufferRef;
using device::Context;
using device::MemoryKind;
using device::Region;
using device::RegionKind;
using device::Sharing;
using ::testing::HasSubstr;

class ShmDevice : public ::testing::Test {
 protected:
  static std::shared_ptr<Context> open(std::int32_t number) {
    static const auto driver = device::make_sim_driver({.devices = 2});
    return driver->open({device::DeviceType::kExtDev, number});
  }
  static std::shared_ptr<const Region> region(const std::shared_ptr<Context>& context, std::string_view content) {
    const device::Queue queue = context->make_queue();
    device::Buffer memory = context->allocate(4096, MemoryKind::kDevice, Sharing::kExportable, queue);
    const BufferRef from{.data = const_cast<char*>(content.data()), .size = content.size(), .read_only = true};
    context->wait(context->copy_recorded(memory.ref().slice(64, content.size()), from, queue));
    return Region::of_device(context, std::move(memory));
  }
  static std::string content_of(const Region& region, std::size_t size) {
    std::string out(size, ' ');
    Context& context = *region.context();
    const BufferRef to{.data = out.data(), .size = size};
    context.wait(context.copy_recorded(to, region.memory().slice(64, size), context.make_queue()));
    return out;
  }
  static Pair connect(std::shared_ptr<Context> device, Ways ways = Way::kMap | Way::kMessage) {
    return connected_pair({}, {}, {.ways = ways, .device = std::move(device)});
  }
};

TEST_F(ShmDevice, ARegionIsOpenedByTheClientThatNamedItsDevice) {
  const auto context = open(1);
  Pair pair = connect(context);
  const auto sent = region(context, "on the device");
  EXPECT_EQ(pair.server->ways_of(*sent), Ways(Way::kMap));
  ASSERT_EQ(pair.server->announce(3, sent), device::make_address(3, 0));
  const auto got = region_of(*pair.client, 3, 5000);
  EXPECT_EQ(got->kind(), RegionKind::kDevice);
  EXPECT_EQ(got->size(), sent->size());
  EXPECT_NE(got->data(), sent->data()) << "it is another mapping";
  EXPECT_EQ(content_of(*got, 13), "on the device");
  // It outlives both ends, and what was announced.
  pair = {};
  EXPECT_EQ(content_of(*got, 13), "on the device");
}

TEST_F(ShmDevice, OthersTakeNone) {
  const auto context = open(1);
  const auto sent = region(context, "x");
  for (const auto& device : {std::shared_ptr<Context>(), open(0)}) {
    const Pair pair = connect(device);
    EXPECT_TRUE(pair.server->ways_of(*sent).empty());
    EXPECT_THROW(pair.server->announce(3, sent), UnsupportedError);
  }
  const Pair by_message = connect(context, Way::kMessage);
  EXPECT_TRUE(by_message.server->ways_of(*sent).empty());
}

TEST_F(ShmDevice, ItsRegionsCountForTheLimits) {
  const auto context = open(1);
  const auto sent = region(context, "x");
  const Pair pair = connected_pair({}, {.max_region_bytes = 6000, .max_regions = 8}, {.device = context});
  ASSERT_TRUE(pair.server->announce(0, sent));
  auto held = region_of(*pair.client, 0, 5000);
  ASSERT_TRUE(pair.server->announce(1, sent));
  EXPECT_THROW(region_of(*pair.client, 1, 5000), ProtocolError);
}

TEST_F(ShmDevice, AServerRefusesThem) {
  const TemporaryFolder folder;
  const auto listener = shm_listen(folder / "s.sock", 1, 2, {}, nullptr);
  const RawSocket socket(folder / "s.sock");
  socket.send(shm::encode(shm::Hello{.max_message = 1000, .device = DeviceName{"sim", "1"}}));
  const auto server = accept_one(*listener);
  ASSERT_TRUE(server);
  EXPECT_EQ(server->agreement().device, (DeviceName{"sim", "1"}));
  socket.send(shm::encode(shm::DeviceRegionPacket{.number = 1, .size = 4096, .device = {"sim", "1"}}));
  EXPECT_THROW(region_of(*server, 1, 1000), ProtocolError);
}

/// A client of ours, and a server that sends over the control socket what a test likes.
class RawServer {
 public:
  explicit RawServer(std::shared_ptr<Context> device) {
    const TemporaryFolder folder;
    const UniqueFd listening = listening_socket(folder / "s.sock");
    std::thread connecting(
        [&] { client = shm_connect(folder / "s.sock", {}, 5000, nullptr, {.device = std::move(device)}); });
    socket_.reset(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::byte hello[512];
    EXPECT_GT(::recv(socket_.get(), hello, sizeof hello, 0), 0);
    UniqueFd own;
    UniqueFd of_client;
    ring_ = make_ring(shm::RingMaker::End::kServer, shm::kMinRingBytes, &own);
    make_ring(shm::RingMaker::End::kClient, shm::kMinRingBytes, &of_client);
    send(shm::encode(shm::Welcome{.ring_bytes = shm::kMinRingBytes, .max_message = 1 << 16}),
         {own.get(), of_client.get()});
    connecting.join();
  }
  void send(ByteSpan packet, const std::vector<int>& descriptors) {
    EXPECT_EQ(shm::send_packet(socket_.get(), packet, descriptors, "test"), shm::Sent::kSent);
  }
  std::unique_ptr<Connection> client;

 private:
  UniqueFd socket_;
  shm::RingMemory ring_;
};

/// An announcement of memory of sim:1, for a test to bend.
struct Announcement {
  explicit Announcement(const std::shared_ptr<const Region>& region) {
    device::MemoryHandle handle = region->context()->export_memory(region->memory());
    packet = {.number = 1,
              .size = handle.size,
              .offset = handle.offset,
              .device = {"sim", std::string(region->context()->identity())},
              .opaque = std::move(handle.opaque)};
    descriptors.push_back(std::move(handle.descriptor));
  }
  void send(RawServer& server) const {
    std::vector<int> plain;
    for (const UniqueFd& fd : descriptors) plain.push_back(fd.get());
    server.send(shm::encode(packet), plain);
  }
  shm::DeviceRegionPacket packet;
  std::vector<UniqueFd> descriptors;
};

TEST_F(ShmDevice, AClientRefusesHandlesThatItDidNotAskForOrThatLie) {
  const auto asked = open(1);
  const auto sent = region(asked, "on the device");
  const int before = descriptors_when_closed();
  const auto announce = [&](const std::shared_ptr<Context>& wanted, const auto& bend) {
    RawServer server(wanted);
    Announcement announcement(sent);
    bend(announcement);
    announcement.send(server);
    return content_of(*region_of(*server.client, 1, 5000), 13);
  };
  ASSERT_EQ(announce(asked, [](Announcement&) {}), "on the device");
  ASSERT_EQ(open_descriptors(), before);

  for (const auto& other : {std::shared_ptr<Context>(), open(0)}) {
    EXPECT_THROW(announce(other, [](Announcement&) {}), ProtocolError) << "memory of another device than it asked for";
    EXPECT_EQ(descriptors_when_closed(), before);
  }
  using Lie = std::function<void(Announcement&)>;
  const std::uint64_t whole = sent->size();
  const auto opaque_size = [](std::uint64_t size) {
    return [size](Announcement& a) { store_le(a.packet.opaque.data(), size); };
  };
  const std::vector<std::pair<const char*, Lie>> lies = {
      {"another driver", [](Announcement& a) { a.packet.device.driver = "cuda"; }},
      {"another device", [](Announcement& a) { a.packet.device.identity = "0"; }},
      {"a device whose name begins alike", [](Announcement& a) { a.packet.device.identity += '0'; }},
      {"no bytes", [](Announcement& a) { a.packet.size = 0; }},
      {"one byte too many", [&](Announcement& a) { a.packet.size = whole + 1; }},
      {"all bytes there are", [](Announcement& a) { a.packet.size = UINT64_MAX; }},
      {"an offset", [](Announcement& a) { a.packet.offset = 1; }},
      {"an offset behind the memory", [&](Announcement& a) { a.packet.offset = whole; }},
      {"the highest offset", [](Announcement& a) { a.packet.offset = UINT64_MAX; }},
      {"an offset that wraps around", [&](Announcement& a) { a.packet.offset = UINT64_MAX - whole + 2; }},
      {"no handle", [](Announcement& a) { a.packet.opaque.clear(); }},
      {"a handle cut short", [](Announcement& a) { a.packet.opaque.pop_back(); }},
      {"a handle that is too long", [](Announcement& a) { a.packet.opaque.emplace_back(); }},
      {"a handle of more memory than there is", opaque_size(whole + 4096)},
      {"a handle of all memory", opaque_size(UINT64_MAX)},
      {"memory of no known kind", [](Announcement& a) { store_le(&a.packet.opaque[8], ~std::uint64_t{0}); }},
      {"no descriptor", [](Announcement& a) { a.descriptors.clear(); }},
      {"two descriptors", [](Announcement& a) { a.descriptors.emplace_back(::dup(a.descriptors[0].get())); }},
      {"a descriptor of no memory",
       [](Announcement& a) { a.descriptors[0].reset(::open("/dev/null", O_RDWR | O_CLOEXEC)); }},
      {"memory that can shrink",
       [&](Announcement& a) {
         a.descriptors[0].reset(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
         ASSERT_EQ(::ftruncate(a.descriptors[0].get(), static_cast<off_t>(whole)), 0);
       }},
  };
  for (const auto& [what, lie] : lies) {
    EXPECT_THROW(announce(asked, lie), ProtocolError) << what;
    EXPECT_EQ(descriptors_when_closed(), before) << what;
  }
}

TEST_F(ShmDevice, AHandleAnnouncedTwiceIsRefused) {
  const auto context = open(1);
  const auto sent = region(context, "x");
  const int before = open_descriptors();
  {
    RawServer server(context);
    for (int i = 0; i < 2; ++i) Announcement(sent).send(server);
    EXPECT_THROW(while (true) server.client->receive(), ProtocolError);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(ShmDevice, PacketsAreReadBackAndShortOnesRefused) {
  const shm::Hello hello{
      .features = 5, .max_message = 6, .max_body = 7, .role = 1, .ways = 5, .device = DeviceName{"cuda", "0123"}};
  const std::vector<std::byte> bytes = shm::encode(hello);
  shm::Hello read;
  ASSERT_TRUE(shm::decode(bytes, &read));
  EXPECT_EQ(read.ways, 5u);
  EXPECT_EQ(read.device, hello.device);
  for (std::size_t size = 64; size < bytes.size(); ++size) {
    EXPECT_FALSE(shm::decode(ByteSpan(bytes).first(size), &read)) << size;
  }

  const shm::DeviceRegionPacket region{
      .number = 9, .size = 1 << 20, .offset = 64, .device = {"cuda", "0123"}, .opaque = pattern(100)};
  const std::vector<std::byte> packet = shm::encode(region);
  shm::DeviceRegionPacket got;
  ASSERT_TRUE(shm::decode(packet, &got));
  EXPECT_EQ(got.number, 9);
  EXPECT_EQ(got.size, 1u << 20);
  EXPECT_EQ(got.offset, 64u);
  EXPECT_EQ(got.device, region.device);
  EXPECT_EQ(got.opaque, region.opaque);
  for (std::size_t size = 0; size < 32 + 8; ++size) {
    EXPECT_FALSE(shm::decode(ByteSpan(packet).first(size), &got)) << size;
  }
  for (const std::size_t length : {24u, 26u}) {  // of the driver's name, of the identity
    for (const std::uint16_t lie : {std::uint16_t{0}, std::uint16_t{65}, std::uint16_t{65535}}) {
      std::vector<std::byte> spoiled = packet;
      store_le(&spoiled[length], lie);
      EXPECT_FALSE(shm::decode(spoiled, &got)) << length << " " << lie;
    }
  }
  EXPECT_THROW(shm::encode(shm::DeviceRegionPacket{.device = {"cuda", "0123"}, .opaque = pattern(500)}),
               UnsupportedError);
}

}  // namespace
}  // namespace crossdock::transport::shm_test
