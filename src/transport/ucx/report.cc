#include "library.h"
#include "transport/ucx.h"

namespace crossdock::transport {

UcxReport find_ucx(const UcxOptions& options) {
  UcxReport report;
  const auto library = ucx::UcxLibrary::open(options.libraries, &report.tried);
  report.found = library != nullptr;
  if (report.found) {
    report.library = library->path();
    report.version = library->version();
  }
  return report;
}

}  // namespace crossdock::transport
