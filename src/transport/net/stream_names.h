#pragma once

/// The names of a transport over a byte stream, for errors.
namespace crossdock::transport::net {

struct StreamNames {
  const char* scheme;      ///< As in "tcp".
  const char* options;     ///< Of the structure with its options, as in "TcpOptions".
  const char* connection;  ///< As in "this tcp connection".
};

}  // namespace crossdock::transport::net
