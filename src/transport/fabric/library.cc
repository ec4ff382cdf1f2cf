#include "library.h"

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "core/blocked_signals.h"
#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::transport::fabric {
namespace {

constexpr const char* kSystemName = "libfabric.so.1";
/// Settings of providers, in the form of the environment's.
constexpr std::array<const char*, 5> kSettings = {
    // The size of a buffer for small messages, of which each endpoint takes 1,024 at once, twice. At the default of
    // 16 KiB that is 68 MiB for each connection. Bodies are longer and need no such buffer.
    "FI_OFI_RXM_BUFFER_SIZE=256",
    // How often an endpoint looks for new connections, in microseconds. At the default of 10 ms the descriptor is
    // readable for so long before anything happens.
    "FI_OFI_RXM_CM_PROGRESS_INTERVAL=200",
    // How often an endpoint looks for news before it looks whether its connection is lost, however much news there is:
    // at all times at the default of 128. It crashes if it finds news of a connection after it has closed that.
    "FI_OFI_RXM_CQ_EQ_FAIRNESS=1000000000",
    // Libraries of providers that print a backtrace at a signal.
    "HFI_NO_BACKTRACE=1", "IPATH_NO_BACKTRACE=1"};

template <typename Function>
void find(const Library& library, const char* name, const char* version, Function*& function,
          std::vector<std::string>& missing) {
  function = reinterpret_cast<Function*>(library.symbol(name, version));
  if (function == nullptr) missing.push_back(std::string(name).append("@").append(version));
}

std::string version_text(std::uint32_t version) {
  return std::to_string(FI_MAJOR(version)) + "." + std::to_string(FI_MINOR(version));
}

/// Returns what makes the library unusable; empty: nothing.
std::string why_unusable(const Library& library, Api& api) {
  std::vector<std::string> missing;
#define CROSSDOCK_FABRIC_FIND(member, exported, version) find(library, #exported, version, api.member, missing);
  CROSSDOCK_FABRIC_FUNCTIONS(CROSSDOCK_FABRIC_FIND)
#undef CROSSDOCK_FABRIC_FIND
  if (!missing.empty()) return "lacks " + first_names(missing);
  if (FI_VERSION_GE(api.version(), kApiVersion)) return {};
  return "is version " + version_text(api.version()) + ", but " + version_text(kApiVersion) + " or later is needed";
}

/// Keeps the process's signal handlers: some libraries of providers install their own.
class KeptSignals {
 public:
  KeptSignals() noexcept {
    for (std::size_t i = 1; i < handlers_.size(); ++i) {
      known_[i] = ::sigaction(static_cast<int>(i), nullptr, &handlers_[i]) == 0;
    }
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;
  ~KeptSignals() {
    for (std::size_t i = 1; i < handlers_.size(); ++i) {
      if (known_[i]) ::sigaction(static_cast<int>(i), &handlers_[i], nullptr);
    }
  }

 private:
  std::array<struct sigaction, NSIG> handlers_{};
  std::array<bool, NSIG> known_{};
};

/// Calls `first_call`, which makes libfabric and its providers read their settings, with an environment that has
/// kSettings too, but those that it has already. Doesn't use setenv(), which other threads' getenv() doesn't survive:
/// they see the old list or the new one, and both stay.
template <typename F>
void with_settings(F first_call) {
  const BlockedSignals blocked;  // for the time in which other handlers are in place
  const KeptSignals kept;
  std::vector<char*> more;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) more.push_back(*variable);
  for (const char* const setting : kSettings) {
    const std::string name(setting, std::strchr(setting, '='));
    if (std::getenv(name.c_str()) == nullptr) more.push_back(const_cast<char*>(setting));
  }
  more.push_back(nullptr);
  // Kept, because a thread may read it at any time.
  static auto& lists = *new std::vector<std::unique_ptr<std::vector<char*>>>;
  char** const list = lists.emplace_back(std::make_unique<std::vector<char*>>(std::move(more)))->data();
  char** const before = std::exchange(environ, list);
  first_call();
  if (environ == list) environ = before;  // else another thread has set a variable meanwhile
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
    std::shared_ptr<Library> library;
    with_settings([&] { library = Library::open({candidate}, tried); });
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
    with_settings([&] { result = look(); });
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
