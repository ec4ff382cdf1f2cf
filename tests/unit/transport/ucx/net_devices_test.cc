#include "transport/ucx/net_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "crossdock/core/error.h"
#include "support/temporary_folder.h"

namespace crossdock::transport::ucx {
namespace {

SocketAddress at(const char* host) { return resolve("ucx", {host, 1}).at(0); }

TEST(UcxNetDevices, AnAddressBelongsToAnInterface) {
  EXPECT_EQ(interface_of(at("127.0.0.1")), "lo");
  EXPECT_EQ(interface_of(at("127.3.4.5")), "lo");
  EXPECT_EQ(interface_of(at("0.0.0.0")), "") << "to all of them";
  EXPECT_THROW(interface_of(at("198.51.100.7")), ConnectionError);
}

TEST(UcxNetDevices, TheRouteGivesTheOwnAddress) { EXPECT_EQ(host_of(source_address(at("127.0.0.9"))), "127.0.0.1"); }

TEST(UcxNetDevices, AnInterfaceBringsItsRdmaDevices) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path root = folder / "net";
  std::filesystem::create_directories(root / "eth0");
  std::filesystem::create_directories(root / "ib0" / "device" / "infiniband" / "mlx5_0");
  std::filesystem::create_directories(root / "ib1" / "device" / "infiniband" / "mlx5_0");
  std::ofstream(root / "ib1" / "dev_port") << "1\n";
  EXPECT_EQ(net_devices_of("eth0", root.string()), "eth0");
  EXPECT_EQ(net_devices_of("ib0", root.string()), "ib0,mlx5_0:1");
  EXPECT_EQ(net_devices_of("ib1", root.string()), "ib1,mlx5_0:2");
  EXPECT_EQ(net_devices_of("gone", root.string()), "gone");
}

}  // namespace
}  // namespace crossdock::transport::ucx
