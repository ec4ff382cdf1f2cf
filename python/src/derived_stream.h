#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "crossdock/array/stream.h"

namespace crossdock::python {

/// Calls `next(stream)` for each batch. Has the schema of `stream`, and the device type `type`.
template <class Next>
class DerivedStream final : public array::BatchStream {
 public:
  DerivedStream(std::unique_ptr<array::BatchStream> stream, device::DeviceType type, Next next)
      : stream_(std::move(stream)), type_(type), next_(std::move(next)) {}
  const std::shared_ptr<const array::Schema>& schema() const override { return stream_->schema(); }
  device::DeviceType device_type() const override { return type_; }
  std::optional<array::RecordBatch> next() override { return next_(*stream_); }

 private:
  std::unique_ptr<array::BatchStream> stream_;
  const device::DeviceType type_;
  Next next_;
};

/// Makes a DerivedStream of the device type of `stream`.
template <class Next>
std::unique_ptr<array::BatchStream> derived_stream(std::unique_ptr<array::BatchStream> stream, Next next) {
  const device::DeviceType type = stream->device_type();
  return std::make_unique<DerivedStream<Next>>(std::move(stream), type, std::move(next));
}

}  // namespace crossdock::python
