#pragma once

namespace crossdock::device::sycl {

/// The error handler of the queues that we make. SYCL calls it with the code of an asynchronous error, in the thread
/// that waits. That thread reads the code with take_async_error().
void note_async_error(int code) noexcept;

/// Returns the first code noted in this thread since the last call; 0 if there was none.
int take_async_error() noexcept;

}  // namespace crossdock::device::sycl
