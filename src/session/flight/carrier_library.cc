#include "session/flight/carrier_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::session {
namespace {

constexpr const char* kFileName = "crossdock_flight.so";
constexpr const char* kVariable = "CROSSDOCK_FLIGHT";

void on_log(std::int32_t level, xd_bytes text) {
  // What concerns a call, or the listening, is in its error, too.
  CarrierLibrary::log_sinks().line(level >= 2 ? LogLevel::kInfo : LogLevel::kDebug,
                                   "gRPC: " + printable({static_cast<const char*>(text.data), text.size}));
}

/// Returns the folder of the file that this function is in, with a slash at the end.
std::string own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string_view path = info.dli_fname;
  return std::string(path.substr(0, path.rfind('/') + 1));
}

/// Returns the paths to try, in this order. An installed libcrossdock has the module in a folder of its version; the
/// Python package and the build tree have it beside the library; the loader searches its own folders.
std::vector<std::string> candidates() {
  if (const char* const given = std::getenv(kVariable); given != nullptr && *given != '\0') return {given};
  std::vector<std::string> paths;
  // Without a folder, the path would be one in the working directory.
  if (const std::string folder = own_folder(); !folder.empty()) {
    paths = {folder + CROSSDOCK_MODULE_FOLDER "/" + kFileName, folder + kFileName};
  }
  paths.emplace_back(kFileName);
  return paths;
}

}  // namespace

CarrierLibrary::CarrierLibrary(std::shared_ptr<Library> library, const xd_carrier* calls)
    : library_(std::move(library)), calls_(calls) {
  calls_->set_log(on_log);
}

LogSinks& CarrierLibrary::log_sinks() {
  static auto* const sinks = new LogSinks;  // never destroyed: a thread of gRPC may log while the process ends
  return *sinks;
}

std::shared_ptr<const CarrierLibrary> CarrierLibrary::find(std::vector<std::string>* tried) {
  static std::mutex mutex;
  // Never destroyed: gRPC has threads of its own.
  static auto* const found = new std::shared_ptr<const CarrierLibrary>;
  const std::lock_guard lock(mutex);
  if (*found) return *found;
  for (const std::string& candidate : candidates()) {
    std::shared_ptr<Library> library = Library::open({candidate}, tried);
    if (!library) continue;
    const auto make = reinterpret_cast<xd_carrier_function>(library->symbol(CROSSDOCK_CARRIER_SYMBOL));
    const xd_carrier* const calls = make == nullptr ? nullptr : make(CROSSDOCK_CARRIER_VERSION);
    if (calls == nullptr) {
      tried->push_back(candidate +
                       (make == nullptr ? ": it is no module of Crossdock's" : ": it is of another version"));
      continue;
    }
    found->reset(new CarrierLibrary(std::move(library), calls));
    return *found;
  }
  return nullptr;
}

std::shared_ptr<const CarrierLibrary> CarrierLibrary::get() {
  std::vector<std::string> tried;
  if (auto found = find(&tried)) return found;
  std::string text =
      "scheme grpc: needs Crossdock's module for Flight, which wheels don't have: build Crossdock from its sources "
      "where "
      "gRPC for C++ is (Debian and Ubuntu: apt-get install libgrpc++-dev); and gRPC's library (libgrpc++1.51); tried";
  for (const std::string& line : tried) text += "\n  " + line;
  throw SchemeError(text);
}

}  // namespace crossdock::session
