#include "library.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/blocked_signals.h"
#include "core/text.h"
#include "crossdock/core/error.h"
#include "log_sinks.h"

namespace crossdock::transport::ucx {
namespace {

constexpr const char* kSystemName = "libucp.so.0";

template <typename Function>
void find(const Library& library, const char* name, Function*& function, std::vector<std::string>& missing) {
  function = reinterpret_cast<Function*>(library.symbol(name));
  if (function == nullptr) missing.emplace_back(name);
}

/// Fills the table. Returns the names of the functions that the library lacks.
std::vector<std::string> find_all(const Library& library, Api& api) {
  std::vector<std::string> missing;
#define CROSSDOCK_UCX_FIND(member, exported) find(library, #exported, api.member, missing);
  CROSSDOCK_UCX_FUNCTIONS(CROSSDOCK_UCX_FIND)
#undef CROSSDOCK_UCX_FIND
#define CROSSDOCK_UCX_FIND(member, exported, result, parameters) find(library, #exported, api.member, missing);
  CROSSDOCK_UCX_SETTINGS(CROSSDOCK_UCX_FIND)
#undef CROSSDOCK_UCX_FIND
  return missing;
}

/// Returns what makes the library unusable; empty: nothing.
std::string why_unusable(const Library& library, Api& api) {
  const std::vector<std::string> missing = find_all(library, api);
  if (!missing.empty()) return "lacks " + first_names(missing);
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  api.get_version(&major, &minor, &release);
  if (major == UCP_API_MAJOR && minor >= UCP_API_MINOR) return {};
  return "is version " + std::string(api.get_version_string()) + ", but " + std::to_string(UCP_API_MAJOR) + "." +
         std::to_string(UCP_API_MINOR) + " or a later " + std::to_string(UCP_API_MAJOR) + ".x is needed";
}

LogLevel level_of(int level) noexcept {
  if (level <= kLogError) return LogLevel::kError;
  if (level == kLogWarning) return LogLevel::kWarning;
  return level <= kLogInfo ? LogLevel::kInfo : LogLevel::kDebug;
}

__attribute__((format(printf, 6, 0))) int on_log_line(const char*, unsigned, const char*, int level, const void*,
                                                      const char* format, va_list arguments) {
  std::array<char, 1024> text{};
  std::array<char, 1040> line{};
  if (std::vsnprintf(text.data(), text.size(), format, arguments) < 0) return kStopLine;
  if (std::snprintf(line.data(), line.size(), "UCX: %s", text.data()) < 0) return kStopLine;
  log_sinks().line(level_of(level), line.data());
  return kStopLine;
}

ErrorCode code_of(ucs_status_t status) noexcept {
  switch (status) {
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT: return ErrorCode::kResource;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR: return ErrorCode::kInvalidArgument;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
    case UCS_ERR_NO_DEVICE: return ErrorCode::kUnsupported;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_REJECTED:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_CANCELED:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_ENDPOINT_TIMEOUT: return ErrorCode::kConnection;
    default: return ErrorCode::kSystem;
  }
}

/// The library that open() returned last. Never destroyed, so that it can be used while the process ends.
struct Current {
  std::mutex mutex;
  std::weak_ptr<const UcxLibrary> library;
  std::atomic<bool> pinned{false};  // it was opened here, and stays loaded
};
Current& current() {
  static auto* const only = new Current;
  return *only;
}

}  // namespace

std::vector<std::string> library_candidates(const std::vector<std::string>& first) {
  const char* const chosen = std::getenv("CROSSDOCK_UCX_LIBRARY");
  if (chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::string> candidates = first;
  candidates.emplace_back(kSystemName);
  return candidates;
}

std::shared_ptr<const UcxLibrary> UcxLibrary::open(const std::vector<std::string>& first,
                                                   std::vector<std::string>* tried) {
  const std::lock_guard lock(current().mutex);
  if (auto known = current().library.lock()) return known;
  const auto use = [&](std::shared_ptr<Library> library, bool ours) -> std::shared_ptr<const UcxLibrary> {
    Api api;
    const std::string wrong = why_unusable(*library, api);
    if (!wrong.empty()) {
      if (tried != nullptr) tried->push_back(library->name() + (ours ? " " : ", loaded by another package, ") + wrong);
      return nullptr;
    }
    std::shared_ptr<const UcxLibrary> opened(new UcxLibrary(std::move(library), api, ours));
    current().library = opened;
    return opened;
  };
  // A second library of another path would find its other half (libucs) in the first one's: the loader goes by names.
  if (auto loaded = Library::find_loaded(kSystemName)) return use(std::move(loaded), current().pinned);
  for (const std::string& candidate : library_candidates(first)) {
    const BlockedSignals blocked;  // for the time in which UCX's handlers are in place
    std::shared_ptr<Library> library = Library::open({candidate}, tried);
    if (library == nullptr) continue;
    auto opened = use(std::move(library), true);
    if (opened == nullptr) continue;
    const Api& api = opened->api();
    api.restore_signals();
    // An option that this version doesn't know isn't needed in it.
    api.set_global_option("HANDLE_ERRORS", "none");
    api.set_global_option("WARN_UNUSED_ENV_VARS", "n");
    api.set_global_option("VFS_ENABLE", "n");
    // Else memory of a device that UCX hasn't seen being allocated, as before it was loaded, passes for the host's.
    api.set_global_option("MEMTYPE_CACHE", "n");
    return opened;
  }
  return nullptr;
}

std::shared_ptr<const UcxLibrary> UcxLibrary::require(const std::vector<std::string>& first) {
  std::vector<std::string> tried;
  if (auto library = open(first, &tried)) return library;
  std::string text = "UCX's library can't be used:";
  for (const std::string& line : tried) text += "\n  " + line;
  throw UnsupportedError(text +
                         "\nInstall it (Debian: apt-get install libucx0; Python: the package libucx-cu12), or name its "
                         "file in CROSSDOCK_UCX_LIBRARY");
}

UcxLibrary::UcxLibrary(std::shared_ptr<Library> library, const Api& api, bool ours)
    : library_(std::move(library)), api_(api), ours_(ours), path_(library_->name()) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(api_.init_version), &info) != 0 && info.dli_fname != nullptr) {
    path_ = info.dli_fname;
  }
  if (ours_) api_.push_log_handler(on_log_line);
}

UcxLibrary::~UcxLibrary() {
  if (ours_) api_.pop_log_handler();
}

bool UcxLibrary::is_at_least(unsigned major, unsigned minor) const noexcept {
  unsigned its_major = 0;
  unsigned its_minor = 0;
  unsigned its_release = 0;
  api_.get_version(&its_major, &its_minor, &its_release);
  return its_major > major || (its_major == major && its_minor >= minor);
}

void UcxLibrary::start() const {
  std::call_once(start_, [this] {
    // Code of UCX runs when threads and the process end, so its library stays loaded even if this one is unloaded.
    if (ours_) {
      if (void* const pinned = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) ::dlclose(pinned);
      current().pinned = true;
    }
    guard_.emplace();
    started_.store(true, std::memory_order_release);
  });
}

void UcxLibrary::check_fork() const {
  if (in_child()) {
    throw ForkError(
        "UCX was started before a fork and belongs to the parent process; start new processes by spawn, or fork "
        "before the ucx transport is used");
  }
}

void UcxLibrary::fail(ucs_status_t status, const std::string& doing) const {
  throw_error(code_of(status), "ucx: " + doing + " failed: " + text(status));
}

}  // namespace crossdock::transport::ucx
