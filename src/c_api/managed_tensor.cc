#include "c_api/managed_tensor.h"

#include <string>

#include "c_api/arguments.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/dlpack.h"

namespace crossdock::c_api {

struct ManagedTensor::Owner {
  Owner() = default;
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
  }
  DLManagedTensorVersioned* managed = nullptr;
};

ManagedTensor::ManagedTensor(DLManagedTensorVersioned* managed) : managed_(managed), owner_(std::make_shared<Owner>()) {
  // Other major versions may have another layout: nothing but the version may be read.
  const DLPackVersion version = need(managed, "the tensor").version;
  if (version.major != DLPACK_MAJOR_VERSION) {
    throw UnsupportedTypeError("a DLPack tensor of version " + std::to_string(version.major) + "." +
                               std::to_string(version.minor) + "; this library takes version 1");
  }
  tensor_ = exchange::view_dlpack(managed->dl_tensor, managed->flags);
  tensor_.owner = owner_;
}

void ManagedTensor::take() noexcept { owner_->managed = managed_; }

}  // namespace crossdock::c_api
