#include "crossdock/core/error.h"
#include "domain.h"
#include "settings.h"

namespace crossdock::transport {

FabricReport find_fabric(const FabricOptions& options) {
  fabric::check_options(options);
  FabricReport report{.provider = options.provider};
  const auto library = fabric::FabricLibrary::open(options.libraries, &report.tried);
  if (library == nullptr) return report;
  report.library = library->path();
  report.version = library->version();
  try {
    fabric::find_provider(*library, options.provider, nullptr);
    report.found = true;
  } catch (const Error& error) {
    report.tried.emplace_back(error.what());
  }
  return report;
}

}  // namespace crossdock::transport
