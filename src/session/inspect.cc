#include "session/inspect.h"

#include <array>
#include <vector>

#include "crossdock/core/error.h"
#include "device/region.h"
#include "session/file_source.h"

namespace crossdock::session {
namespace {

constexpr std::size_t kLengthPrefix = 8;  // before each compressed buffer

}  // namespace

struct FileInspector::Impl {
  Impl(const std::string& path, const ipc::Limits& given)
      : name(path),
        limits(given),
        region(device::Region::open_file(path)),
        source(region, path),
        plan(ipc::read_container(source, path, limits)) {}

  std::string name;
  ipc::Limits limits;
  std::shared_ptr<const device::Region> region;
  FileSource source;
  ipc::Container plan;
};

FileInspector::FileInspector(const std::string& path, const ipc::Limits& limits)
    : impl_(std::make_unique<Impl>(path, limits)) {}
FileInspector::~FileInspector() = default;

const ipc::Container& FileInspector::plan() const noexcept { return impl_->plan; }
std::int64_t FileInspector::size() const noexcept { return impl_->source.size(); }

ipc::BatchDescription FileInspector::describe(std::size_t index) {
  Impl& in = *impl_;
  if (index >= in.plan.messages.size()) {
    throw InvalidArgumentError("there is no message " + std::to_string(index) + ": " + in.name + " has " +
                               std::to_string(in.plan.messages.size()) + ", counted from 0");
  }
  const ipc::ContainerMessage& place = in.plan.messages[index];
  const std::string where = "the message at byte " + std::to_string(place.metadata_offset) + " of " + in.name;
  std::vector<std::byte> metadata(static_cast<std::size_t>(place.metadata_length));
  in.source.read(place.metadata_offset, metadata);
  ipc::BatchDescription out = ipc::describe_batch(metadata, *in.plan.schema, in.limits, where.c_str());
  if (out.message.kind != place.kind || out.message.body_length != place.body_length) {
    throw FileChangedError(where + ": the file changed while it was read");
  }
  if (out.message.codec == ipc::Codec::kNone) return out;
  for (ipc::BufferDescription& buffer : out.buffers) {
    std::array<std::byte, kLengthPrefix> head{};
    if (buffer.range.length >= static_cast<std::int64_t>(kLengthPrefix)) {
      in.source.read(place.body_offset + buffer.range.offset, head);
    }
    buffer.decompressed = ipc::decompressed_size(head, buffer.range.length).value_or(-1);
  }
  return out;
}

}  // namespace crossdock::session
