// Regions of a device's memory over shm: announced by their driver's handle.
#include <gmock/gmock.h>

#include "device/memory_handle.h"
#include "device/sim.h"
#include "shm_support.h"
#include "transport/shm/packets.h"

namespace crossdock::transport {
namespace {

using namespace shm_test;  // NOLINT(google-build-using-namespace)
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
}  // namespace crossdock::transport
