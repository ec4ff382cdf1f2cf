#pragma once

#include <memory>

#include "crossdock/array/stream.h"
#include "crossdock/c_api/source.h"

namespace crossdock::c_api {

/// A C caller's function that makes streams. Thread-safe, as that function must be.
class StreamFactory {
 public:
  StreamFactory(crossdock_make_stream make, void* user) noexcept : make_(make), user_(user) {}
  StreamFactory(const StreamFactory&) = delete;
  StreamFactory& operator=(const StreamFactory&) = delete;
  ~StreamFactory();

  /// From now on the destructor calls `release` with the caller's pointer, if it isn't null. Before, the pointer is
  /// still the caller's.
  void own(void (*release)(void* user)) noexcept { release_ = release; }

  /// Makes a stream. Throws the error that the function reports, InvalidDataError if it reports success and makes no
  /// stream, and as array::import_stream().
  std::unique_ptr<array::BatchStream> stream() const;

 private:
  crossdock_make_stream make_;
  void* user_;
  void (*release_)(void* user) = nullptr;
};

}  // namespace crossdock::c_api
