#include "cuda_library.h"

#include <dlfcn.h>
#include <sys/random.h>

#include <cerrno>
#include <utility>

namespace crossdock::device::cuda {

namespace {

constexpr int kOldest = 11020;  // the first version with stream-ordered allocation

// The two signatures of cuGetProcAddress: that of CUDA 11.3, and that with a status, from CUDA 12.0 on.
using GetProcAddress = CUresult (*)(const char* name, void** function, int version, std::uint64_t flags);
using GetProcAddressV2 = CUresult (*)(const char* name, void** function, int version, std::uint64_t flags, int* status);

template <typename Function>
Function as(void* symbol) noexcept {
  return reinterpret_cast<Function>(symbol);
}

/// Finds functions in one library. If the library has cuGetProcAddress, finds them by version, so that a newer driver
/// returns the requested signature. If it hasn't (11.2), finds them by the names under which each signature is
/// exported.
class Finder {
 public:
  explicit Finder(const Library& library)
      : library_(library),
        newer_(as<GetProcAddressV2>(library.symbol("cuGetProcAddress_v2"))),
        older_(as<GetProcAddress>(library.symbol("cuGetProcAddress"))) {}

  template <typename Function>
  void find_optional(Function*& function, const char* name, int version, const char* exported) const noexcept {
    function = as<Function*>(address(name, version, exported));
  }
  template <typename Function>
  void find(Function*& function, const char* name, int version, const char* exported) {
    find_optional(function, name, version, exported);
    if (function == nullptr) missing_ += (missing_.empty() ? "" : ", ") + std::string(exported);
  }
  const std::string& missing() const noexcept { return missing_; }

 private:
  void* address(const char* name, int version, const char* exported) const noexcept {
    void* function = nullptr;
    int status = 0;
    if (newer_ != nullptr) {
      return newer_(name, &function, version, kProcAddressLegacyStream, &status) == kSuccess ? function : nullptr;
    }
    if (older_ != nullptr) {
      return older_(name, &function, version, kProcAddressLegacyStream) == kSuccess ? function : nullptr;
    }
    return library_.symbol(exported);
  }

  const Library& library_;
  GetProcAddressV2 newer_;
  GetProcAddress older_;
  std::string missing_;
};

std::string show_version(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Finds all functions. Returns the fault of a library that could be opened; empty if it has none.
std::string find_all(const Library& library, Api& api, int& version) {
  Finder finder(library);
#define CROSSDOCK_CUDA_FIND(member, name, since, exported, parameters) finder.find(api.member, name, since, exported);
  CROSSDOCK_CUDA_FUNCTIONS(CROSSDOCK_CUDA_FIND)
#undef CROSSDOCK_CUDA_FIND
#define CROSSDOCK_CUDA_FIND(member, name, since, exported, parameters) \
  finder.find_optional(api.member, name, since, exported);
  CROSSDOCK_CUDA_OPTIONAL_FUNCTIONS(CROSSDOCK_CUDA_FIND)
#undef CROSSDOCK_CUDA_FIND
  // Checks the version first: an old version explains missing functions.
  if (api.driver_get_version != nullptr) {
    const CUresult result = api.driver_get_version(&version);
    if (result != kSuccess) return "cuDriverGetVersion failed with error " + std::to_string(result);
    if (version < kOldest)
      return "is of " + show_version(version) + ", but " + show_version(kOldest) + " or later is needed";
  }
  return finder.missing().empty() ? std::string() : "lacks " + finder.missing();
}

ErrorCode code_of(CUresult result) noexcept {
  switch (result) {
    case kOutOfMemory:
    case kMapFailed: return ErrorCode::kResource;
    case kInvalidValue:
    case kInvalidHandle: return ErrorCode::kInvalidArgument;
    case kNoDevice:
    case kInvalidDevice: return ErrorCode::kNotFound;
    case kNotSupported: return ErrorCode::kUnsupported;
    case kDeinitialized:
    case kContextIsDestroyed: return ErrorCode::kClosed;
    default: return ErrorCode::kSystem;
  }
}

}  // namespace

std::shared_ptr<CudaLibrary> CudaLibrary::open(const std::vector<std::string>& candidates,
                                               std::vector<std::string>* tried) {
  for (const std::string& candidate : candidates) {
    std::shared_ptr<Library> library = Library::open({candidate}, tried);
    if (library == nullptr) continue;
    Api api;
    int version = 0;
    const std::string wrong = find_all(*library, api, version);
    if (wrong.empty()) return std::make_shared<CudaLibrary>(std::move(library), api, version);
    if (tried != nullptr) tried->emplace_back(candidate).append(": ").append(wrong);
  }
  return nullptr;
}

CudaLibrary::CudaLibrary(std::shared_ptr<Library> library, const Api& api, int version)
    : library_(std::move(library)), api_(api), version_(version) {}

std::string CudaLibrary::version() const { return show_version(version_); }

CUresult CudaLibrary::start() {
  check_fork();
  std::call_once(started_, [this] {
    std::size_t filled = 0;
    while (filled < token_.size()) {
      const ssize_t got = ::getrandom(token_.data() + filled, token_.size() - filled, 0);
      if (got < 0 && errno != EINTR) throw_errno(errno, "making the token of the CUDA driver's memory handles");
      if (got > 0) filled += static_cast<std::size_t>(got);
    }
    // Once started, CUDA has threads of its own, so its library must stay loaded even if this one is unloaded.
    if (void* pinned = ::dlopen(library_->name().c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) ::dlclose(pinned);
    guard_.emplace();
    guarded_.store(true, std::memory_order_release);
    started_with_ = api_.init(0);
  });
  return started_with_;
}

void CudaLibrary::check_fork() const {
  if (in_child()) {
    throw ForkError(
        "CUDA was started before a fork and belongs to the parent process; start new processes by spawn, or "
        "fork before CUDA is used");
  }
}

std::string CudaLibrary::text(CUresult result) const {
  const char* name = nullptr;
  const char* what = nullptr;
  if (api_.get_error_name(result, &name) != kSuccess || name == nullptr) return "CUDA error " + std::to_string(result);
  if (api_.get_error_string(result, &what) != kSuccess || what == nullptr) return name;
  return std::string(name) + " (" + what + ")";
}

Error CudaLibrary::error(CUresult result, const std::string& doing) const {
  return {code_of(result), "the cuda driver: " + text(result) + " while " + doing};
}

void CudaLibrary::fail(CUresult result, const std::string& doing) const {
  const Error failure = error(result, doing);
  throw_error(failure.code(), failure.what());
}

}  // namespace crossdock::device::cuda
