#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "completions.h"
#include "crossdock/peers/message.h"

/// Buffers of Python objects as the frames of a message.
namespace crossdock::python {

/// Owns the exported buffers of one message's frames. The last frame that is dropped releases them all: with the GIL
/// at once, on another thread by a deferred task, for which the event loop is woken.
class SentBuffers {
 public:
  explicit SentBuffers(std::shared_ptr<Completions> loop) noexcept : loop_(std::move(loop)) {}
  SentBuffers(const SentBuffers&) = delete;
  SentBuffers& operator=(const SentBuffers&) = delete;
  ~SentBuffers();

  /// Exports the object's buffer, of contiguous memory in C or Fortran order. `number` is the frame's, for errors.
  /// Throws InvalidArgumentError for memory that isn't contiguous and for elements that are Python objects, TypeError
  /// for an object without the buffer protocol, and other errors of the object's.
  std::span<const std::byte> add(nanobind::handle object, std::size_t number);
  void reserve(std::size_t count) { views_.reserve(count); }

 private:
  const std::shared_ptr<Completions> loop_;
  std::vector<Py_buffer> views_;
};

/// Makes frames of an iterable of buffers. They share one owner. Needs the GIL. Throws the errors of
/// SentBuffers::add(), and TypeError if `buffers` is a single buffer, or can't be iterated.
std::vector<peers::OutgoingFrame> frames_of(nanobind::handle buffers, std::shared_ptr<Completions> loop);

}  // namespace crossdock::python
