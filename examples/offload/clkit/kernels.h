#pragma once

#include <memory>

#include "crossdock/array/tensor.h"
#include "crossdock/device/queue.h"
#include "crossdock/device/registry.h"

/// The kernels of clkit: OpenCL C, built by dpctl's program interface for the context that a queue is in, and submitted
/// to the queue through it.
namespace clkit {

/// Thread-safe. Programs are built once for each context.
class Kernels {
 public:
  /// Opens dpctl's library, as the driver does. Throws where there is none.
  explicit Kernels(std::shared_ptr<const crossdock::device::DriverRegistry> drivers);
  ~Kernels();

  const crossdock::device::DriverRegistry& drivers() const { return *drivers_; }

  /// The numbers 0, 1, 2, … in a new array of the queue.
  crossdock::array::Tensor numbers(const crossdock::device::Queue& queue, std::int64_t rows, std::int64_t columns);
  /// The product of two float64 matrices in C order that the queue reaches: a new array of it. Returns once the kernel
  /// is submitted. Throws ExecutionPlacementError, InvalidArgumentError.
  crossdock::array::Tensor gemm(const crossdock::device::Queue& queue, const crossdock::array::Tensor& a,
                                const crossdock::array::Tensor& b);

 private:
  struct Program;
  Program& program_for(const crossdock::device::Queue& queue);

  struct Impl;
  std::shared_ptr<const crossdock::device::DriverRegistry> drivers_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clkit
