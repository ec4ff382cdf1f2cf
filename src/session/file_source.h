#pragma once

#include <memory>
#include <string>

#include "device/region.h"
#include "ipc/container.h"

namespace crossdock::session {

/// Reads a file's metadata through its descriptor. If the file is truncated meanwhile, this is an error; a read of the
/// mapping would raise SIGBUS.
class FileSource final : public ipc::ContainerSource {
 public:
  /// A kFile region, with its descriptor.
  FileSource(std::shared_ptr<const device::Region> region, std::string path)
      : region_(std::move(region)), path_(std::move(path)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(region_->size()); }
  void read(std::int64_t offset, MutableByteSpan to) const override;

 private:
  std::shared_ptr<const device::Region> region_;
  std::string path_;
};

}  // namespace crossdock::session
