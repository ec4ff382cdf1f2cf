#include "barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace crossdock::transport::shm {

namespace {

bool membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0U, 0) == 0; }

}  // namespace

bool register_for_barriers() noexcept { return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED); }

void Barrier::heavy() const noexcept {
  fence();
  if (expedited_) membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void Barrier::fence() noexcept {
  // A read-modify-write of a private word is as full a barrier as a fence, and ThreadSanitizer understands it.
  std::atomic<int> word{0};
  word.exchange(1, std::memory_order_seq_cst);
}

}  // namespace crossdock::transport::shm
