#include <algorithm>
#include <span>
#include <utility>

#include "core/bytes.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "ipc/metadata.h"
#include "session/buffer_placer.h"
#include "session/published_table.h"
#include "session/tensor_format.h"
#include "session/tensor_path.h"

namespace crossdock::session {
namespace {

constexpr std::uint64_t kBodyAlignment = 64;

std::string where_of(const NamedTensor& named) {
  return named.path.empty() ? "a tensor to publish" : "the tensor " + excerpt(write_path(named.path));
}

TensorContent content_of(std::span<const NamedTensor> tensors) {
  TensorContent content{.single = tensors.size() == 1 && tensors[0].path.empty(),
                        .count = static_cast<std::int64_t>(tensors.size())};
  if (!content.single) return content;
  content.type = element_type_name(tensors[0].tensor.type);
  content.shape.assign(tensors[0].tensor.shape().begin(), tensors[0].tensor.shape().end());
  return content;
}

void check(std::span<const NamedTensor> tensors, bool single) {
  if (tensors.empty()) throw InvalidArgumentError("there is no tensor to publish");
  std::vector<std::span<const std::string>> paths;
  for (const NamedTensor& named : tensors) {
    if (!single) {
      write_path(named.path);  // throws for a path that can't be written
      paths.emplace_back(named.path);
    }
    const array::Tensor& tensor = named.tensor;
    if (tensor.mask) throw UnsupportedError(where_of(named) + " has a mask, which can't be served: fill it first");
    if (!device::has_addresses(tensor.device.type)) {
      throw UnsupportedError(where_of(named) + " is in memory of " + device::to_string(tensor.device) +
                             ", which has handles instead of addresses");
    }
    array::byte_range(tensor, where_of(named).c_str());  // throws for sizes that overflow
  }
  check_paths(&paths);
}

/// Returns the tensor's message without its data's place, as its elements lie in C order.
ipc::TensorHeader header_of(const NamedTensor& named) {
  const array::Tensor& tensor = named.tensor;
  ipc::TensorHeader header;
  WireType type = [&] {
    try {
      return wire_type(tensor.type);
    } catch (const UnsupportedTypeError& error) {
      throw UnsupportedTypeError(where_of(named) + ": " + error.what());
    }
  }();
  header.type = std::move(type.type);
  header.shape.assign(tensor.shape().begin(), tensor.shape().end());
  header.strides = ipc::row_major_strides(header.type, header.shape);
  if (!named.path.empty()) header.custom_metadata.emplace_back(kPathKey, write_path(named.path));
  if (!type.dtype.empty()) header.custom_metadata.emplace_back(kDtypeKey, std::move(type.dtype));
  return header;
}

}  // namespace

std::shared_ptr<const PublishedTable> publish_tensors(std::span<const NamedTensor> tensors, const Runtime& runtime,
                                                      const exchange::WaitFunction& wait, std::int64_t version) {
  const TensorContent content = content_of(tensors);
  check(tensors, content.single);
  std::vector<ipc::TensorHeader> headers;  // all, before an arena is taken over
  for (const NamedTensor& named : tensors) headers.push_back(header_of(named));

  TableBuilder builder(tensor_schema(content), version);
  builder.table().kind = content.single ? "tensor" : "tensors";
  BufferPlacer placer(runtime, builder, wait);
  ipc::Encoder encoder;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const array::Tensor& tensor = tensors[i].tensor;
    ipc::TensorHeader& header = headers[i];
    bool as_it_lies = lies_without_gaps(tensor);
    const array::BufferView placed = placer.place_tensor(tensor, &as_it_lies);
    // Dimensions of one element keep the strides of C order: their own have no meaning, and may be negative.
    for (std::size_t d = 0; as_it_lies && placed.size > 0 && d < header.strides.size(); ++d) {
      if (header.shape[d] > 1) header.strides[d] = tensor.strides()[d];
    }
    const dissociated::RemoteBuffer buffer = placer.place_whole(placed);
    placer.keep(tensor.owner);
    header.data = {0, placed.size};
    const bool on_host = device::host_reaches(tensor.device.type);
    header.body_length = on_host ? placed.size : static_cast<std::int64_t>(align_up(buffer.length, kBodyAlignment));
    builder.add(encoder.tensor(header), true, {&buffer, 1}, 0);
    builder.table().messages.back().unpadded = on_host;
  }
  placer.finish();
  builder.table().rows = -1;
  return builder.finish();
}

}  // namespace crossdock::session
