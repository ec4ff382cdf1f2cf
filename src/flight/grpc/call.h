#pragma once

#include <cstddef>

#include "flight/carrier.h"

/// One call, at a server or of a client. See the functions of xd_carrier.
struct xd_call {
  virtual void read() = 0;
  virtual void write(const xd_slice* parts, std::size_t n_parts) = 0;
  virtual void finish(const xd_slice* parts, std::size_t n_parts, xd_status status, xd_bytes authorization) = 0;
  virtual void writes_done() = 0;
  virtual void cancel() = 0;
  virtual void release() = 0;

 protected:
  ~xd_call() = default;
};
