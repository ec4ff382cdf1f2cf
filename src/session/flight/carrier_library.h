#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/library.h"
#include "core/log_sinks.h"
#include "flight/carrier.h"

namespace crossdock::session {

/// The module that carries Flight's calls by gRPC, loaded at run time. Immutable; thread-safe.
class CarrierLibrary {
 public:
  /// Returns the module of this process, which is loaded once and stays. It is looked for at the path of the
  /// environment variable CROSSDOCK_FLIGHT, or else in the folder of this version beside this library, beside it, and
  /// in the loader's folders. Throws SchemeError, which says what was tried and what to install.
  static std::shared_ptr<const CarrierLibrary> get();
  /// Returns the module, or null; adds what was tried to `*tried`, a line each.
  static std::shared_ptr<const CarrierLibrary> find(std::vector<std::string>* tried);

  const xd_carrier& calls() const noexcept { return *calls_; }
  const std::string& path() const noexcept { return library_->name(); }
  std::string version() const { return calls_->library_version(); }
  /// The receivers of gRPC's log lines.
  static LogSinks& log_sinks();

 private:
  CarrierLibrary(std::shared_ptr<Library> library, const xd_carrier* calls);

  const std::shared_ptr<Library> library_;
  const xd_carrier* const calls_;
};

}  // namespace crossdock::session
