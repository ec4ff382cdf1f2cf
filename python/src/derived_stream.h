#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "crossdock/array/stream.h"

namespace crossdock::python {

/// Calls `next(stream)` for each batch. Has the device type `type`, and `schema`, or that of `stream` if it is null.
template <class Next>
class DerivedStream final : public array::BatchStream {
 public:
  DerivedStream(std::unique_ptr<array::BatchStream> stream, device::DeviceType type, Next next,
                const std::shared_ptr<const array::Schema>& schema = nullptr)
      : stream_(std::move(stream)),
        type_(type),
        next_(std::move(next)),
        schema_(schema != nullptr ? schema : stream_->schema()) {}
  const std::shared_ptr<const array::Schema>& schema() const override { return schema_; }
  device::DeviceType device_type() const override { return type_; }
  std::optional<array::RecordBatch> next() override { return next_(*stream_); }

 private:
  std::unique_ptr<array::BatchStream> stream_;
  const device::DeviceType type_;
  Next next_;
  const std::shared_ptr<const array::Schema> schema_;
};

/// Makes a DerivedStream of the device type of `stream`.
template <class Next>
std::unique_ptr<array::BatchStream> derived_stream(std::unique_ptr<array::BatchStream> stream, Next next,
                                                   const std::shared_ptr<const array::Schema>& schema = nullptr) {
  const device::DeviceType type = stream->device_type();
  return std::make_unique<DerivedStream<Next>>(std::move(stream), type, std::move(next), schema);
}

}  // namespace crossdock::python
