#include "library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::transport::fabric {
namespace {

constexpr const char* kSystemName = "libfabric.so.1";
/// The size of a buffer for small messages of ofi_rxm, which takes 1,024 at once for each endpoint, twice. At its
/// default of 16 KiB each endpoint takes 68 MiB; bodies are longer than any of the two, and use no such buffer.
constexpr const char* kBufferSize = "FI_OFI_RXM_BUFFER_SIZE";
constexpr const char* kBufferSizeSetting = "FI_OFI_RXM_BUFFER_SIZE=256";

template <typename Function>
void find(const Library& library, const char* name, const char* version, Function*& function, std::string& missing) {
  function = reinterpret_cast<Function*>(library.symbol(name, version));
  if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name) + "@" + version;
}

std::string version_text(std::uint32_t version) {
  return std::to_string(FI_MAJOR(version)) + "." + std::to_string(FI_MINOR(version));
}

/// Returns what makes the library unusable; empty: nothing.
std::string why_unusable(const Library& library, Api& api) {
  std::string missing;
#define CROSSDOCK_FABRIC_FIND(member, exported, version) find(library, #exported, version, api.member, missing);
  CROSSDOCK_FABRIC_FUNCTIONS(CROSSDOCK_FABRIC_FIND)
#undef CROSSDOCK_FABRIC_FIND
  if (!missing.empty()) return "lacks " + missing;
  if (FI_VERSION_GE(api.version(), kApiVersion)) return {};
  return "is version " + version_text(api.version()) + ", but " + version_text(kApiVersion) + " or later is needed";
}

/// Calls `first_call`, which makes libfabric read its settings, with an environment that has one more variable. Doesn't
/// use setenv(), which other threads' getenv() doesn't survive: they see the old list or the new one, and both stay.
template <typename F>
void with_setting(const char* name, const char* setting, F first_call) {
  if (std::getenv(name) != nullptr) return first_call();
  std::size_t n = 0;
  while (environ != nullptr && environ[n] != nullptr) ++n;
  auto** const more = new char*[n + 2];  // kept: another thread may be reading it at any time
  std::memcpy(more, environ, n * sizeof(char*));
  more[n] = const_cast<char*>(setting);
  more[n + 1] = nullptr;
  char** const before = std::exchange(environ, more);
  first_call();
  if (environ == more) environ = before;  // else another thread has set a variable meanwhile
}

ErrorCode code_of(int error) noexcept {
  switch (error) {
    case FI_ENOMEM:
    case FI_EMFILE:
    case FI_ENOSPC:
    case FI_ETOOSMALL: return ErrorCode::kResource;
    case FI_ENODATA:
    case FI_ENOSYS:
    case FI_EOPNOTSUPP:
    case FI_ENOPROTOOPT: return ErrorCode::kUnsupported;
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ENOTCONN:
    case FI_ETIMEDOUT:
    case FI_EHOSTUNREACH:
    case FI_ENETUNREACH:
    case FI_ESHUTDOWN: return ErrorCode::kConnection;
    default: return ErrorCode::kSystem;
  }
}

/// The library in use. Never destroyed, so that it can be used while the process ends.
struct Current {
  std::mutex mutex;
  std::shared_ptr<const FabricLibrary> library;
};
Current& current() {
  static auto* const only = new Current;
  return *only;
}

}  // namespace

std::vector<std::string> library_candidates(const std::vector<std::string>& first) {
  const char* const chosen = std::getenv("CROSSDOCK_FABRIC_LIBRARY");
  if (chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::string> candidates = first;
  candidates.emplace_back(kSystemName);
  return candidates;
}

std::shared_ptr<const FabricLibrary> FabricLibrary::open(const std::vector<std::string>& first,
                                                         std::vector<std::string>* tried) {
  const std::lock_guard lock(current().mutex);
  if (current().library) return current().library;
  for (const std::string& candidate : library_candidates(first)) {
    std::shared_ptr<Library> library = Library::open({candidate}, tried);
    if (library == nullptr) continue;
    Api api;
    const std::string wrong = why_unusable(*library, api);
    if (wrong.empty()) return current().library = {new FabricLibrary(std::move(library), api), [](auto*) {}};
    if (tried != nullptr) tried->push_back(library->name() + " " + wrong);
  }
  return nullptr;
}

std::shared_ptr<const FabricLibrary> FabricLibrary::require(const std::vector<std::string>& first) {
  std::vector<std::string> tried;
  if (auto library = open(first, &tried)) return library;
  std::string text = "libfabric's library can't be used:";
  for (const std::string& line : tried) text += "\n  " + line;
  throw UnsupportedError(text +
                         "\nInstall it (Debian: apt-get install libfabric1), or name its file in "
                         "CROSSDOCK_FABRIC_LIBRARY");
}

FabricLibrary::FabricLibrary(std::shared_ptr<Library> library, const Api& api)
    : library_(std::move(library)), api_(api), path_(library_->name()) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(api_.getinfo), &info) != 0 && info.dli_fname != nullptr) path_ = info.dli_fname;
}

std::string FabricLibrary::version() const { return version_text(api_.version()); }

Info FabricLibrary::make_info() const {
  Info info(api_.dupinfo(nullptr), {api_.freeinfo});
  if (info == nullptr) throw std::bad_alloc();
  return info;
}

Info FabricLibrary::find(const fi_info* hints) const {
  static std::once_flag first;
  fi_info* found = nullptr;
  const auto look = [&] { return api_.getinfo(kApiVersion, nullptr, nullptr, 0, hints, &found); };
  int result = 0;
  bool done = false;
  std::call_once(first, [&] {
    with_setting(kBufferSize, kBufferSizeSetting, [&] { result = look(); });
    done = true;
  });
  if (!done) result = look();
  Info info(found, {api_.freeinfo});
  if (result == -FI_ENODATA) return Info(nullptr, {api_.freeinfo});
  check(result, "looking for a provider");
  return info;
}

void FabricLibrary::fail(long result, const std::string& doing) const {
  const int error = static_cast<int>(-result);
  throw_error(code_of(error), "fabric: " + doing + " failed: " + text(error));
}

}  // namespace crossdock::transport::fabric
