#include "c_api/arrays_stream.h"

#include <string>
#include <utility>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"
#include "crossdock/core/error.h"

namespace crossdock::c_api {

ArraysStream::ArraysStream(const ArrowSchema& schema, std::span<ArrowArray> batches)
    : theirs_(batches), ours_(batches.size()) {
  if (schema.release == nullptr) throw InvalidArgumentError("the schema was released");
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (batches[i].release == nullptr) throw InvalidArgumentError("batch " + std::to_string(i) + " was released");
  }
  schema_ = array::import_schema(schema);
}

ArraysStream::~ArraysStream() {
  for (ArrowDeviceArray& array : ours_) {
    if (array.array.release != nullptr) array.array.release(&array.array);
  }
}

void ArraysStream::take() noexcept {
  for (std::size_t i = 0; i < ours_.size(); ++i) {
    ours_[i].array = theirs_[i];
    ours_[i].device_id = -1;
    ours_[i].device_type = ARROW_DEVICE_CPU;
    theirs_[i].release = nullptr;
  }
  theirs_ = {};
}

std::optional<array::RecordBatch> ArraysStream::next() {
  if (next_ == ours_.size()) return std::nullopt;
  array::RecordBatch batch = array::import_batch(schema_, &ours_[next_]);
  ++next_;
  return batch;
}

}  // namespace crossdock::c_api
