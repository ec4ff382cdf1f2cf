#include "sycl_library.h"

#include <dlfcn.h>

#include <exception>
#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::device::sycl {

namespace {

/// Finds all functions. Returns the fault of a library that could be opened; empty if it has none.
std::string find_all(const Library& library, Api& api) {
  std::string missing;
  const auto find = [&]<typename Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(library.symbol(name));
    if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
#define CROSSDOCK_SYCL_FIND(member, name, result, parameters) find(api.member, name);
  CROSSDOCK_SYCL_FUNCTIONS(CROSSDOCK_SYCL_FIND)
#undef CROSSDOCK_SYCL_FIND
  if (missing.empty()) return {};
  return "lacks " + missing + "; it isn't a dpctl library, or is of another version: install dpctl 0.22 or later";
}

}  // namespace

std::shared_ptr<SyclLibrary> SyclLibrary::open(const std::vector<std::string>& candidates,
                                               std::vector<std::string>* tried) {
  for (const std::string& candidate : candidates) {
    std::shared_ptr<Library> library = Library::open({candidate}, tried);
    if (library == nullptr) continue;
    Api api;
    const std::string wrong = find_all(*library, api);
    if (wrong.empty()) return std::make_shared<SyclLibrary>(std::move(library), api);
    if (tried != nullptr) tried->emplace_back(candidate).append(": ").append(wrong);
  }
  return nullptr;
}

SyclLibrary::SyclLibrary(std::shared_ptr<Library> library, const Api& api) : library_(std::move(library)), api_(api) {}

std::string SyclLibrary::version() const { return "SYCL, DPC++ " + take(api_.version()); }

std::string SyclLibrary::path() const {
  Dl_info found{};
  const bool known = ::dladdr(reinterpret_cast<void*>(api_.version), &found) != 0 && found.dli_fname != nullptr;
  return known ? found.dli_fname : library_->name();
}

std::string SyclLibrary::take(const char* text) const {
  if (text == nullptr) return {};
  std::string copy = text;
  api_.string_delete(text);
  return copy;
}

const std::vector<Owned<OpaqueDevice>>& SyclLibrary::devices() {
  check_fork();
  std::call_once(started_, [this] {
    // Once started, SYCL has threads of its own, so its library must stay loaded even if this one is unloaded.
    if (void* pinned = ::dlopen(library_->name().c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) ::dlclose(pinned);
    if (!guard_) guard_.emplace();
    guarded_.store(true, std::memory_order_release);
    const Owned<OpaqueDevices> found = own(api_.get_devices(kEveryDevice));
    if (found == nullptr) return;              // dpctl's result if SYCL finds no platform at all
    std::vector<Owned<OpaqueDevice>> devices;  // all or none: after a failed call the next one tries again
    for (std::size_t i = 0; i < api_.devices_size(found.get()); ++i) {
      devices.push_back(check(api_.devices_at(found.get(), i), "listing its devices"));
    }
    devices_ = std::move(devices);
  });
  return devices_;
}

int SyclLibrary::number_of(DeviceRef device) const {
  int number = api_.device_position(device, kEveryDevice);
  Owned<OpaqueDevice> parent = own(DeviceRef{});
  while (number < 0) {
    parent = own(api_.device_parent(parent != nullptr ? parent.get() : device));
    if (parent == nullptr) {
      throw InvalidArgumentError("the sycl driver was given an object of a device that SYCL doesn't list");
    }
    number = api_.device_position(parent.get(), kEveryDevice);
  }
  return number;
}

std::shared_ptr<OpaqueContext> SyclLibrary::default_context(int number) {
  DeviceRef device = devices()[static_cast<std::size_t>(number)].get();
  return share_context(check(api_.device_context(device), "looking for a device's default context"));
}

std::shared_ptr<OpaqueContext> SyclLibrary::share_context(Owned<OpaqueContext> owned) {
  const std::lock_guard lock(contexts_mutex_);
  std::erase_if(contexts_, [](const auto& known) { return known.expired(); });
  for (const std::weak_ptr<OpaqueContext>& known : contexts_) {
    auto held = known.lock();
    if (held != nullptr && api_.context_equal(held.get(), owned.get())) return held;
  }
  auto made = share(std::move(owned));
  contexts_.push_back(made);
  return made;
}

std::optional<MemoryKind> SyclLibrary::kind_of(const void* pointer, ContextRef context) const noexcept {
  switch (api_.pointer_type(const_cast<void*>(pointer), context)) {
    case kTypeDevice: return MemoryKind::kDevice;
    case kTypeHost: return MemoryKind::kHost;
    case kTypeShared: return MemoryKind::kShared;
    default: return std::nullopt;
  }
}

Owned<OpaqueDevice> SyclLibrary::device_of(void* pointer, ContextRef context) const noexcept {
  try {
    return own(api_.pointer_device(pointer, context));
  } catch (const std::exception&) {  // unlike all other functions, this one lets SYCL's exceptions through
    return own(DeviceRef{});
  }
}

void SyclLibrary::check_fork() const {
  if (in_child()) {
    throw ForkError(
        "SYCL was started before a fork and belongs to the parent process; start new processes by spawn, or fork "
        "before SYCL is used");
  }
}

void SyclLibrary::fail(const std::string& doing) const {
  throw SystemError("the sycl driver: SYCL failed while " + doing +
                    "; with DPCTL_VERBOSITY=2 in the environment, dpctl writes the reason to standard error");
}

}  // namespace crossdock::device::sycl
