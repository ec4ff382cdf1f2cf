#include "c_api/stream_factory.h"

#include <string>

#include "crossdock/core/error.h"

namespace crossdock::c_api {
namespace {

/// A stream that is released with this object, unless somebody has taken it.
struct OwnedStream {
  OwnedStream() = default;
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  ~OwnedStream() {
    if (stream.release != nullptr) stream.release(&stream);
  }
  ArrowArrayStream stream{};
};

struct OwnedError {
  OwnedError() = default;
  OwnedError(const OwnedError&) = delete;
  OwnedError& operator=(const OwnedError&) = delete;
  ~OwnedError() { crossdock_error_release(&error); }
  crossdock_error* error = nullptr;
};

}  // namespace

StreamFactory::~StreamFactory() {
  if (release_ != nullptr) release_(user_);
}

std::unique_ptr<array::BatchStream> StreamFactory::stream() const {
  OwnedStream made;
  OwnedError error;
  const crossdock_status status = make_(user_, &made.stream, &error.error);
  if (status != CROSSDOCK_OK) {
    const std::string text = crossdock_error_message(error.error);
    throw_error(static_cast<ErrorCode>(status),
                text.empty() ? "the function that makes streams failed and gave no text" : text);
  }
  if (made.stream.release == nullptr) {
    throw InvalidDataError("the function that makes streams reported success and made none");
  }
  return array::import_stream(&made.stream);
}

}  // namespace crossdock::c_api
