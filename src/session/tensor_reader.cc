#include "session/tensor_reader.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "array/metadata.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/sync.h"
#include "session/copy_elements.h"
#include "session/tensor_format.h"
#include "session/tensor_path.h"

namespace crossdock::session {
namespace {

GetOptions stream_options(const TensorOptions& options) {
  GetOptions stream;
  stream.wait = options.wait;
  stream.timeout = options.timeout;
  stream.device = options.device;
  stream.copy_on_write = options.copy_on_write;
  stream.limits = options.limits;
  stream.memory = options.memory;
  stream.on_message = options.on_message;
  return stream;
}

[[noreturn]] void fail_has_several(const std::string& name) {
  throw InvalidArgumentError(shown(name) + " has several tensors, each with a path: tensors() reads them");
}

[[noreturn]] void fail_has_one(const std::string& name) {
  throw InvalidArgumentError(shown(name) + " is one tensor without a path: tensor() reads it");
}

}  // namespace

TensorReader::TensorReader(std::shared_ptr<ClientPool> from, std::shared_ptr<ClientPool> data_from,
                           const std::string& name, const TensorOptions& options,
                           const transport::InterruptHook& interrupted)
    : options_(options),
      name_(name),
      runtime_(from->options().runtime),
      reader_(std::move(from), std::move(data_from), name, stream_options(options), interrupted, Content::kTensors,
              options.out) {}

std::optional<bool> TensorReader::single() const {
  const auto content = tensor_content(*reader_.schema);
  return content ? std::optional(content->single) : std::nullopt;
}

void TensorReader::count(const ipc::TensorHeader& header) {
  const std::string* const path = array::find_value(header.custom_metadata, kPathKey);
  path_bytes_ += path != nullptr ? path->size() : 0;
  if (++tensors_ <= options_.max_tensors && path_bytes_ <= options_.max_path_bytes) return;
  throw ResourceError(shown(name_) + " has more than " + std::to_string(options_.max_tensors) +
                      " tensors, or their paths have more than " + std::to_string(options_.max_path_bytes) +
                      " bytes; if that is expected, raise max_tensors or max_path_bytes");
}

std::optional<NamedTensor> TensorReader::next() {
  std::optional<array::RecordBatch> bytes;
  reader_.advance(true, &bytes);
  if (!bytes) return std::nullopt;
  const ipc::TensorHeader& header = reader_.tensor;
  count(header);
  NamedTensor named;
  if (const std::string* const path = array::find_value(header.custom_metadata, kPathKey)) {
    named.path = read_path(*path, shown(name_));
  }
  named.tensor = received(header, *bytes);
  if (options_.out == nullptr) {
    align(&named.tensor);
    return named;
  }
  const array::Tensor& out = *options_.out;
  if (named.tensor.data != out.data && out.size() != 0) {
    copy_elements(out, named.tensor, *runtime_, exchange::wait_in_driver);
    copied_ += static_cast<std::uint64_t>(out.nbytes());
  }
  named.tensor = out;
  return named;
}

/// Returns the tensor that a message describes, in the memory that its body came in.
array::Tensor TensorReader::received(const ipc::TensorHeader& header, const array::RecordBatch& bytes) {
  array::Tensor tensor;
  static_cast<device::Memory&>(tensor) = bytes;
  tensor.type = element_type(header, shown(name_));
  tensor.extents = array::Extents(static_cast<std::int32_t>(header.shape.size()));
  std::ranges::copy(header.shape, tensor.extents.shape().begin());
  std::ranges::copy(header.strides, tensor.extents.strides().begin());
  tensor.data = const_cast<void*>(bytes.buffers.back().data);
  // What was brought to a device is a copy of this process's own.
  tensor.read_only = !(options_.copy_on_write && device::host_reaches(tensor.device.type));
  array::check_tensor(&tensor, "a received tensor");
  return tensor;
}

/// Copies elements that begin at an address that isn't aligned to their size, which consumers read in place, as they
/// lie. No server of Crossdock's sends such. Several tensors may be the same bytes of the server's, so the sum is
/// limited.
void TensorReader::align(array::Tensor* tensor) {
  if (tensor->data == nullptr || !device::host_reaches(tensor->device.type)) return;
  const auto width = static_cast<std::uint64_t>(tensor->type.itemsize());
  const std::uint64_t alignment = std::min<std::uint64_t>(width & (~width + 1), sizeof(std::uint64_t));
  if (reinterpret_cast<std::uintptr_t>(tensor->data) % alignment == 0) return;
  const auto bytes = static_cast<std::uint64_t>(array::byte_range(*tensor, "a received tensor").highest);
  aligned_ += bytes;
  if (aligned_ > static_cast<std::uint64_t>(options_.limits.max_decompressed_bytes)) {
    throw InvalidDataError(shown(name_) + ": its tensors aren't aligned, and aligning them takes more than " +
                           std::to_string(options_.limits.max_decompressed_bytes) +
                           " bytes (ipc::Limits::max_decompressed_bytes)");
  }
  const std::shared_ptr<std::byte> memory = memory_->allocate(bytes);
  std::memcpy(memory.get(), tensor->data, bytes);
  tensor->data = memory.get();
  tensor->owner = memory;
  copied_ += bytes;
}

array::Tensor read_tensor(TensorReader* reader, const std::string& name) {
  if (reader->single() == false) fail_has_several(name);
  std::optional<NamedTensor> only = reader->next();
  if (!only) throw InvalidDataError(shown(name) + " has no tensor");
  if (!only->path.empty() || reader->next()) fail_has_several(name);
  return std::move(only->tensor);
}

std::vector<NamedTensor> read_tensors(TensorReader* reader, const std::string& name) {
  if (reader->single() == true) fail_has_one(name);
  std::vector<NamedTensor> all;
  while (std::optional<NamedTensor> next = reader->next()) all.push_back(*std::move(next));
  if (all.size() == 1 && all[0].path.empty()) fail_has_one(name);
  std::vector<std::span<const std::string>> paths;
  for (const NamedTensor& named : all) {
    if (named.path.empty())
      throw InvalidDataError(shown(name) + " has several tensors, and not all of them have a path");
    paths.emplace_back(named.path);
  }
  try {
    check_paths(&paths);
  } catch (const InvalidArgumentError& error) {
    throw InvalidDataError(shown(name) + ": " + error.what());
  }
  return all;
}

}  // namespace crossdock::session
