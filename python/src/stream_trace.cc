#include "stream_trace.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>

#include "text.h"

namespace nb = nanobind;

namespace crossdock::python {

void StreamTrace::note(const array::RecordBatch& batch) noexcept {
  std::uint64_t bytes = 0;
  for (const array::BufferView& buffer : batch.buffers) {
    bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(buffer.size, 0));
  }
  batches_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void StreamTrace::end(const std::string& error) noexcept {
  if (over_.exchange(true)) return;
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  defer_call([on_end = on_end_, batches = batches_.load(), bytes = bytes_.load(), error,
              time = since_1970 / std::chrono::nanoseconds(1)]() noexcept {
    try {
      nb::handle(on_end->get())(batches, bytes, time, error.empty() ? nb::object(nb::none()) : displayed(error));
    } catch (nb::python_error& raised) {
      raised.discard_as_unraisable("telling of the end of a stream");
    } catch (const std::exception&) {
      // No memory for the arguments: the span is lost.
    }
  });
}

}  // namespace crossdock::python
