#ifndef CROSSDOCK_TESTS_FAKES_CUDA_CUDA_FAKE_H
#define CROSSDOCK_TESTS_FAKES_CUDA_CUDA_FAKE_H

#include <stdint.h>

/// A fake of CUDA's driver library, for tests: CUDA's ABI on simulated devices. What it does beyond CUDA is said
/// here; tests find these functions in the library that they opened. All are thread-safe.
///
/// From the environment, read by cuInit: CROSSDOCK_CUDA_FAKE_DEVICES (how many; 2), CROSSDOCK_CUDA_FAKE_MEMORY (bytes
/// that each has; 8 GiB), CROSSDOCK_CUDA_FAKE_DELAY_US (how long each piece of a stream's work takes at least, in
/// microseconds; 0).
#ifdef __cplusplus
extern "C" {
#endif

/// What is alive in the process.
struct CrossdockCudaFakeLive {
  uint64_t allocations;  ///< Of memory of all kinds, registered host memory and opened handles too.
  uint64_t streams;      ///< Made by cuStreamCreate.
  uint64_t events;
  uint64_t contexts;  ///< Times that a primary context is retained, and contexts of cuCtxCreate.
};

/// Waits for the work of all streams, whether it fails or not. Then forgets failures, counts, faults, hidden functions,
/// attributes, the delay and the version that were set; what is alive stays, but no context is broken any longer.
void crossdockCudaFakeReset(void);
/// Destroys all that is alive but contexts, as the end of a primary context does.
void crossdockCudaFakeForget(void);
/// The `nth` call of `function` (as it is exported) from now on, 1 for the next, fails with `result` and does nothing.
/// For 0, no call of it fails any more.
void crossdockCudaFakeFail(const char* function, int nth, int result);
/// Calls of `function` (as it is exported) since the last reset.
uint64_t crossdockCudaFakeCalls(const char* function);
/// Says how to find out whether the calling thread holds a lock, Python's say: `holds` gives 1 if it does.
void crossdockCudaFakeWatchLock(int (*holds)(void));
/// Those of the calls of `function` since the last reset that were made with that lock held.
uint64_t crossdockCudaFakeCallsWithLock(const char* function);
void crossdockCudaFakeLive(struct CrossdockCudaFakeLive* live);
/// Memory pools of cuMemPoolCreate.
uint64_t crossdockCudaFakePools(void);
/// Bytes that all pools, also the default ones, took from the system since the last reset: their free memory is used
/// first, as far as they kept it at the last synchronization.
uint64_t crossdockCudaFakeMapped(void);
/// As CROSSDOCK_CUDA_FAKE_DELAY_US, for work from now on.
void crossdockCudaFakeSetDelay(uint64_t microseconds);
/// What cuDriverGetVersion says.
void crossdockCudaFakeSetVersion(int version);
/// What cuDeviceGetAttribute says of all devices.
void crossdockCudaFakeSetAttribute(int attribute, int value);
/// cuGetProcAddress doesn't find `function` (as it is exported) any more.
void crossdockCudaFakeHide(const char* function);
/// From now on every call that needs the context, a CUcontext, fails with `result`: what a kernel's fault does.
void crossdockCudaFakeBreak(void* context, int result);
/// The next copy that a stream runs fails, as a kernel's fault does: with CUDA_ERROR_LAUNCH_FAILED in its context.
void crossdockCudaFakeFailWork(void);
/// How often memory was used by two streams without an order between them, or freed while a stream worked on it, since
/// the last reset. Such work isn't done, and fails as above. What the last one was is put into `text`, of `size` bytes.
uint64_t crossdockCudaFakeFaults(char* text, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
