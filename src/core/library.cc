#include "core/library.h"

#include <dlfcn.h>

#include <utility>

namespace crossdock {

std::shared_ptr<Library> Library::open(const std::vector<std::string>& candidates, std::vector<std::string>* tried) {
  for (const std::string& candidate : candidates) {
    // Local binding: two libraries of one name (a wheel's and the system's) must not see each other's symbols.
    if (void* handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return std::shared_ptr<Library>(new Library(handle, candidate));
    }
    if (tried != nullptr) {
      const char* const said = ::dlerror();
      const std::string reason = said != nullptr ? said : "unknown reason";
      // The loader's text usually begins with the name.
      const std::string name = candidate + ": ";
      tried->push_back(reason.starts_with(name) ? reason : name + reason);
    }
  }
  return nullptr;
}

std::shared_ptr<Library> Library::find_loaded(const std::string& name) {
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  return handle != nullptr ? std::shared_ptr<Library>(new Library(handle, name)) : nullptr;
}

Library::Library(void* handle, std::string name) noexcept : handle_(handle), name_(std::move(name)) {}

Library::~Library() { ::dlclose(handle_); }

void* Library::symbol(const char* name) const noexcept { return ::dlsym(handle_, name); }

void* Library::symbol(const char* name, const char* version) const noexcept { return ::dlvsym(handle_, name, version); }

}  // namespace crossdock
