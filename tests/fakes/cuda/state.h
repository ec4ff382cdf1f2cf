#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "crossdock/device/driver.h"
#include "device/cuda/api.h"

/// What the fake of CUDA's driver library remembers. All of it is guarded by one lock, which is never held while
/// anything waits.
namespace crossdock::cuda_fake {

using namespace device::cuda;  // CUDA's types and numbers
using device::kCudaLegacyStream;
using device::kCudaPerThreadStream;

// Results that only the fake returns, or names.
constexpr CUresult kStubLibrary = 34;
constexpr CUresult kNotFound = 500;
constexpr CUresult kIllegalAddress = 700;
constexpr CUresult kLaunchFailed = 719;
constexpr CUresult kUnknown = 999;

// CUdevice_attribute and CUpointer_attribute that only others ask for.
constexpr int kPciBus = 33;
constexpr int kUnifiedAddressing = 41;
constexpr int kComputeCapabilityMajor = 75;
constexpr int kPointerSyncMemops = 6;
constexpr int kPointerIpcCapable = 10;
constexpr int kPointerHandleTypes = 14;

struct DoubleContext;

struct DoubleStream {
  DoubleContext* context;
  device::Queue queue;
  bool blocking;  ///< Orders itself with the legacy default stream.
};

struct DoubleEvent {
  DoubleContext* context;
  device::Event event;  ///< Of the last recording; complete before the first.
};

struct DoubleContext {
  std::uint64_t id = 0;  ///< No other context has or had it.
  int ordinal = 0;
  bool primary = false;
  CUresult broken = kSuccess;
  std::shared_ptr<device::Context> backend;
  std::unique_ptr<DoubleStream> legacy;
  std::map<std::thread::id, std::unique_ptr<DoubleStream>> per_thread;
  std::set<DoubleStream*> streams;  ///< Of cuStreamCreate.
};

/// A memory pool: how much of its memory is in use, and how much is free and kept.
struct DoublePool {
  int ordinal = 0;
  std::uint64_t threshold = 0;
  std::uint64_t used = 0;
  std::uint64_t kept = 0;
};

enum class Source { kAlloc, kPool, kPinned, kManaged, kRegistered, kOpened };

/// One allocation, by its address on the device.
struct Block {
  Source source = Source::kAlloc;
  DoubleContext* context = nullptr;
  std::uint64_t size = 0;
  device::Buffer buffer;             ///< None where the memory is somebody else's.
  void* host = nullptr;              ///< The host's address; null where it has none.
  int opened = 0;                    ///< Times, for kOpened.
  CUipcMemHandle handle{};           ///< For kOpened, and of kAlloc once it was exported.
  UniqueFd exported;                 ///< What another process opens.
  std::shared_ptr<DoublePool> pool;  ///< For kPool; lives as long as its memory, also if it was destroyed.
};

struct DoubleDevice {
  device::Device backend;
  std::shared_ptr<DoublePool> default_pool = std::make_shared<DoublePool>();
  std::unique_ptr<DoubleContext> primary;
  int retained = 0;
};

struct State {
  std::mutex mutex;
  pid_t started_in = 0;  ///< The process that called cuInit; 0: none has.
  std::shared_ptr<device::Driver> driver;
  std::uint64_t device_memory = 0;  ///< Bytes that each device has.
  std::vector<DoubleDevice> devices;
  std::set<std::unique_ptr<DoubleContext>> contexts;      ///< Of cuCtxCreate.
  std::vector<std::unique_ptr<DoubleContext>> destroyed;  ///< Of cuCtxDestroy: the next contexts have their addresses.
  std::uint64_t context_ids = 0;                          ///< How many were given.
  std::set<DoubleEvent*> events;
  std::map<CUdeviceptr, Block> blocks;
  std::map<CUmemoryPool, std::shared_ptr<DoublePool>> pools;  ///< Of cuMemPoolCreate.
  std::uint64_t mapped = 0;                                   ///< Bytes that pools took from the system.

  /// The ends of streams that were destroyed since the last reset: their work may be under way.
  std::vector<std::pair<std::shared_ptr<device::Context>, device::Event>> ended;

  // Controls
  int version = 12080;
  std::map<int, int> attributes;
  std::set<std::string> hidden;
  std::map<std::string, std::uint64_t> calls;
  int (*holds_lock)() = nullptr;
  std::map<std::string, std::uint64_t> calls_with_lock;
  std::map<std::string, std::map<std::uint64_t, CUresult>> failures;  ///< By function and number of the call.
};

State& state();
std::uint64_t delay_from_environment();

/// A failure on the way through a function: its result.
struct Failure {
  CUresult result;
};

/// Contexts that a thread has made current, the one that is so now last. Needs no destructor: it is asked for after the
/// main thread's end too, by what goes with the process.
class ContextStack {
 public:
  bool empty() const noexcept { return size_ == 0; }
  DoubleContext* back() const noexcept { return contexts_[size_ - 1]; }
  void pop_back() noexcept { --size_; }
  void push_back(DoubleContext* context) {
    if (size_ == contexts_.size()) throw Failure{kOutOfMemory};
    contexts_[size_++] = context;
  }

 private:
  std::array<DoubleContext*, 64> contexts_{};
  std::size_t size_ = 0;
};
/// The calling thread's.
ContextStack& current_contexts();

/// Counts the call, and fails where a test said so. With the lock held.
void count(const char* function);
/// Fails outside the process that called cuInit.
void need_start();
/// The current context, not broken.
DoubleContext& need_context();
/// The context that a handle stands for.
DoubleContext& context_of(CUcontext handle);
DoubleStream& stream_of(CUstream handle);
DoubleEvent& event_of(CUevent handle);
/// Ends a stream; its work goes on.
void end_stream(DoubleStream* stream);
/// The block that these bytes lie in, or null.
std::pair<const CUdeviceptr, Block>* block_of(CUdeviceptr pointer, std::uint64_t size);
/// Has the pools return the free memory to the system that they don't keep: what each synchronization does.
void release_free_memory();
/// What a stream must do before new work is put on it: what the legacy default stream's rules order it after.
void order_default_streams(DoubleStream& stream);
/// Bytes as the backend names them; memory that isn't ours is the host's.
device::BufferRef bytes_at(CUdeviceptr pointer, std::uint64_t size);

/// The body of a function: `work` with the lock held, what it throws as CUDA's number.
template <typename Work>
CUresult call(const char* function, Work work) noexcept {
  try {
    const std::lock_guard lock(state().mutex);
    count(function);
    work();
    return kSuccess;
  } catch (const Failure& failure) {
    return failure.result;
  } catch (const ResourceError&) {
    return kOutOfMemory;
  } catch (const InvalidArgumentError&) {
    return kInvalidValue;
  } catch (const UnsupportedError&) {
    return kNotSupported;
  } catch (const Error&) {
    return kUnknown;
  } catch (...) {
    return kOutOfMemory;
  }
}

#define CUDA_FAKE extern "C" __attribute__((visibility("default")))

}  // namespace crossdock::cuda_fake
