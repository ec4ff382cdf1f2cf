#include "crossdock/core/debug.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <string_view>

#include "core/mapping_record.h"
#include "crossdock/core/error.h"

namespace crossdock {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS};
constexpr std::size_t kCount = std::size(kSignals);

// Written under `changing` before the handler that reads them is installed.
struct sigaction before[kCount];
std::atomic<bool> reporting{false};
// The place of handle() on the stack while it runs the previous handler. That handler may have been installed on top of
// ours, and call ours again.
std::atomic<const void*> passed_context{nullptr};
std::atomic<std::uintptr_t> passed_frame{0};

std::size_t index_of(int signal) noexcept { return signal == kSignals[0] ? 0 : 1; }

// ---- used in the handler: async-signal-safe functions only ----

/// Text of a bounded length, on the stack.
class Line {
 public:
  Line& add(std::string_view text) noexcept {
    const std::size_t room = sizeof(text_) - size_;
    const std::size_t taken = text.size() < room ? text.size() : room;
    std::memcpy(text_ + size_, text.data(), taken);
    size_ += taken;
    return *this;
  }
  /// Adds text that a peer chose. Control characters become '?'.
  Line& add_foreign(std::string_view text) noexcept {
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      add(byte < 0x20 || byte == 0x7F ? std::string_view("?") : std::string_view(&c, 1));
    }
    return *this;
  }
  Line& add_number(std::uint64_t number, unsigned base = 10) noexcept {
    char digits[20];
    std::size_t at = sizeof(digits);
    do {
      digits[--at] = "0123456789abcdef"[number % base];
      number /= base;
    } while (number != 0);
    return add({digits + at, sizeof(digits) - at});
  }
  void write_out() const noexcept {
    for (std::size_t done = 0; done < size_;) {
      const ssize_t written = ::write(STDERR_FILENO, text_ + done, size_ - done);
      if (written > 0) {
        done += static_cast<std::size_t>(written);
      } else if (written == 0 || errno != EINTR) {
        return;
      }
    }
  }

 private:
  char text_[1024];
  std::size_t size_ = 0;
};

void report(int signal, std::uintptr_t address) noexcept {
  RecordedMapping mapping;
  if (!find_mapping(address, &mapping)) return;
  const bool file = mapping.kind == MappingKind::kFile;
  Line line;
  line.add("\ncrossdock: ");
  if (signal == SIGSEGV) {
    line.add("write into read-only Crossdock memory");
  } else if (file) {
    line.add("read beyond the end of a file that was truncated");
  } else {
    line.add("read of Crossdock memory that the system couldn't provide");
  }
  line.add("\n  address 0x").add_number(address, 16).add(", byte ").add_number(address - mapping.start);
  line.add(" of ").add_number(mapping.size).add(" in ").add(file ? "the file " : "");
  line.add_foreign({mapping.label, mapping.label_size}).add("\n  ");
  if (signal == SIGSEGV) {
    line.add(
        "Tables and arrays from Crossdock are shared with other processes. Copy the data that you want to change: "
        ".clone() in torch, .copy() in NumPy, or xd.asarray(x, copy=True).\n");
  } else if (file) {
    line.add(
        "Don't truncate files that are open or served: replace them as a whole (write another one and rename it), or "
        "serve them with stable=\"snapshot\".\n");
  } else {
    line.add("Free memory, or raise this container's memory limit.\n");
  }
  line.write_out();
}

/// Makes the default action happen: for a fault at once, since its instruction is run again; for other signals when
/// this handler returns.
void let_it_die(int signal, bool fault) noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  if (!fault) ::raise(signal);  // blocked until the handler returns
}

void handle(int signal, siginfo_t* info, void* context) noexcept {
  const int error = errno;
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  // Signals that a program or the machine sent, and not an instruction of this thread, have no address.
  const bool fault = info->si_code > 0 && !(signal == SIGBUS && info->si_code == BUS_MCEERR_AO);
  const bool ours = fault && (signal == SIGBUS || info->si_code == SEGV_ACCERR);
  if (passed_context.load(std::memory_order_relaxed) == context &&
      frame < passed_frame.load(std::memory_order_relaxed)) {
    let_it_die(signal, fault);  // The chain of handlers has come back here: ends it.
    return;
  }
  if (ours && reporting.load(std::memory_order_relaxed)) {
    report(signal, reinterpret_cast<std::uintptr_t>(info->si_addr));
  }
  passed_frame.store(frame, std::memory_order_relaxed);
  passed_context.store(context, std::memory_order_relaxed);
  const struct sigaction& next = before[index_of(signal)];
  if ((next.sa_flags & SA_SIGINFO) != 0) {
    next.sa_sigaction(signal, info, context);
  } else if (next.sa_handler == SIG_DFL || (next.sa_handler == SIG_IGN && fault)) {
    let_it_die(signal, fault);
    errno = error;
    return;
  } else if (next.sa_handler != SIG_IGN) {
    next.sa_handler(signal);
  }
  passed_context.store(nullptr, std::memory_order_relaxed);
  // A handler such as Python's faulthandler restores the handler before it and sends the signal again. That signal is
  // pending until this handler returns. It must then end the process, even if the restored handler is this one.
  sigset_t waiting;
  if (::sigpending(&waiting) == 0 && ::sigismember(&waiting, signal) == 1) let_it_die(signal, true);
  errno = error;
}

// ---- not used in the handler ----

std::mutex changing;

/// The alternative signal stack of a thread that had none.
class AlternativeStack {
 public:
  AlternativeStack() = default;
  AlternativeStack(const AlternativeStack&) = delete;
  AlternativeStack& operator=(const AlternativeStack&) = delete;
  ~AlternativeStack() {
    stack_t current{};
    if (memory_ == nullptr || ::sigaltstack(nullptr, &current) != 0 || current.ss_sp != memory_.get()) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    ::sigaltstack(&none, nullptr);
  }
  void provide() {
    stack_t current{};
    if (::sigaltstack(nullptr, &current) != 0) throw_errno(errno, "asking for the alternative signal stack");
    if ((current.ss_flags & SS_DISABLE) == 0) return;
    constexpr std::size_t kSize = std::size_t{64} << 10;
    if (memory_ == nullptr) memory_ = std::make_unique<std::byte[]>(kSize);
    stack_t ours{};
    ours.ss_sp = memory_.get();
    ours.ss_size = kSize;
    if (::sigaltstack(&ours, nullptr) != 0) throw_errno(errno, "setting an alternative signal stack");
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
};

bool is_ours(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == handle;
}

struct sigaction installed(int signal) {
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0) throw_errno(errno, "asking for a signal's handler");
  return action;
}

}  // namespace

void report_faults() {
  static thread_local AlternativeStack stack;
  const std::lock_guard lock(changing);
  stack.provide();
  for (const int signal : kSignals) {
    const struct sigaction current = installed(signal);
    if (is_ours(current)) continue;
    before[index_of(signal)] = current;
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    if (::sigaction(signal, &action, nullptr) != 0) throw_errno(errno, "installing a signal's handler");
  }
  reporting.store(true);
}

void stop_reporting_faults() {
  const std::lock_guard lock(changing);
  reporting.store(false);
  for (const int signal : kSignals) {
    if (!is_ours(installed(signal))) continue;
    if (::sigaction(signal, &before[index_of(signal)], nullptr) != 0)
      throw_errno(errno, "restoring a signal's handler");
  }
}

}  // namespace crossdock
