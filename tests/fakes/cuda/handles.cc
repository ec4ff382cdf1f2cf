// Memory for other processes. A handle names the exporter's process and descriptor, which is opened through /proc: what
// a process of the same user may do.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "device/memory_handle.h"
#include "state.h"

using namespace crossdock::cuda_fake;
using crossdock::UniqueFd;
using crossdock::device::MemoryHandle;

namespace {

struct Named {
  char magic[8];
  std::int32_t process;
  std::int32_t descriptor;
  std::uint64_t size;
  std::uint32_t opaque_size;
  std::int32_t ordinal;
  unsigned char opaque[32];
};
static_assert(sizeof(Named) == sizeof(CUipcMemHandle));
constexpr char kMagic[8] = {'c', 'u', 'd', 'o', 'u', 'b', 'l', 'e'};

}  // namespace

CUDA_FAKE CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  return call("cuIpcGetMemHandle", [&] {
    need_context();
    auto* found = block_of(pointer, 0);
    if (found == nullptr || found->first != pointer || found->second.source != Source::kAlloc) {
      throw Failure{kInvalidValue};
    }
    Block& block = found->second;
    if (!block.exported) {
      MemoryHandle exported = block.context->backend->export_memory(block.buffer.ref());
      Named named{};
      if (!exported.descriptor || exported.opaque.size() > sizeof named.opaque) throw Failure{kNotSupported};
      std::memcpy(named.magic, kMagic, sizeof kMagic);
      named.process = ::getpid();
      named.descriptor = exported.descriptor.get();
      named.size = block.size;
      named.ordinal = block.context->ordinal;
      named.opaque_size = static_cast<std::uint32_t>(exported.opaque.size());
      std::memcpy(named.opaque, exported.opaque.data(), exported.opaque.size());
      std::memcpy(&block.handle, &named, sizeof named);
      block.exported = std::move(exported.descriptor);
    }
    *handle = block.handle;
  });
}

CUDA_FAKE CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned flags) {
  return call("cuIpcOpenMemHandle_v2", [&] {
    DoubleContext& context = need_context();
    if (flags != kIpcLazyPeerAccess) throw Failure{kInvalidValue};
    Named named{};
    std::memcpy(&named, &handle, sizeof named);
    if (std::memcmp(named.magic, kMagic, sizeof kMagic) != 0) throw Failure{kInvalidValue};
    if (named.process == ::getpid()) throw Failure{kInvalidContext};
    for (auto& [address, block] : state().blocks) {
      const bool same = block.source == Source::kOpened && block.context == &context &&
                        std::memcmp(&block.handle, &handle, sizeof handle) == 0;
      if (!same) continue;
      ++block.opened;
      *pointer = address;
      return;
    }
    const std::string path = "/proc/" + std::to_string(named.process) + "/fd/" + std::to_string(named.descriptor);
    MemoryHandle exported;
    exported.driver = context.backend->driver_name();
    exported.opaque.resize(std::min<std::size_t>(named.opaque_size, sizeof named.opaque));
    std::memcpy(exported.opaque.data(), named.opaque, exported.opaque.size());
    exported.descriptor = UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!exported.descriptor) throw Failure{kInvalidHandle};
    exported.size = named.size;
    Block block;
    block.source = Source::kOpened;
    block.context = &context;
    block.size = named.size;
    block.buffer = context.backend->import_memory(std::move(exported), "the CUDA fake");
    block.opened = 1;
    block.handle = handle;
    *pointer = reinterpret_cast<CUdeviceptr>(block.buffer.data());
    state().blocks[*pointer] = std::move(block);
  });
}

CUDA_FAKE CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  Block closed;  // dropped outside the lock
  return call("cuIpcCloseMemHandle", [&] {
    need_context();
    const auto found = state().blocks.find(pointer);
    if (found == state().blocks.end() || found->second.source != Source::kOpened) throw Failure{kInvalidValue};
    if (--found->second.opened > 0) return;
    closed = std::move(found->second);
    state().blocks.erase(found);
  });
}
