#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "crossdock/array/tensor.h"
#include "crossdock/device/driver.h"
#include "ipc/tensor.h"
#include "transport/body_memory.h"

namespace crossdock::session {

/// The memory of the user's in which a tensor is wanted (TensorOptions::out). Once the tensor's message is known, and
/// its body would lie there as it is sent, the body is received straight into it; other bodies go to other memory. Used
/// by the reader and by its connection, on one thread at a time. Bodies that were received there may live longer.
class OutTensor final : public transport::BodyMemory {
 public:
  /// `target`: writable, without a mask, with nothing pending. `others`: the memory for bodies that don't belong there.
  /// `context`: of the device that both are on; null: `others` is on the host, as the target is, or isn't where the
  /// target is.
  OutTensor(array::Tensor target, std::shared_ptr<transport::BodyMemory> others,
            std::shared_ptr<device::Context> context)
      : target_(std::move(target)), others_(std::move(others)), context_(std::move(context)) {}

  const array::Tensor& target() const noexcept { return target_; }
  /// Checks a tensor's message before its body is received, and expects that body. Throws InvalidArgumentError for
  /// another shape or type than the target's; UnsupportedTypeError and InvalidDataError as element_type().
  void expect(const ipc::TensorHeader& header, const std::string& where);

  device::Device device() const noexcept override { return others_->device(); }
  bool takes(std::uint64_t tag) const noexcept override { return others_->takes(tag); }
  void write(std::byte* to, ByteSpan from) override { others_->write(to, from); }
  std::shared_ptr<std::byte> allocate(std::uint64_t size) override;

 private:
  const array::Tensor target_;
  const std::shared_ptr<transport::BodyMemory> others_;
  const std::shared_ptr<device::Context> context_;
  bool expects_ = false;  // the body of the target's size
  bool lent_ = false;     // to a body
};

}  // namespace crossdock::session
