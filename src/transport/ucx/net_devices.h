#pragma once

#include <string>

#include "transport/internal/socket_address.h"

/// The network devices that belong to an address. UCX listens at every device that it may use, so each context is
/// limited to those of its address.
namespace crossdock::transport::ucx {

/// Returns the name of the interface that has this address, as in "eth0"; an empty string for the address of no one
/// interface (0.0.0.0). Throws ConnectionError if no interface has it, SystemError.
std::string interface_of(const SocketAddress& address);

/// Returns the address of this machine from which packets to `remote` are sent. Sends nothing. Throws ConnectionError
/// if there is no route, SystemError.
SocketAddress source_address(const SocketAddress& remote);

/// Returns UCX's list of devices for an interface: its name, and the ports of its RDMA devices, as in "ib0,mlx5_0:1".
/// `folder` is where the system describes the interfaces.
std::string net_devices_of(const std::string& interface, const std::string& folder = "/sys/class/net");

}  // namespace crossdock::transport::ucx
