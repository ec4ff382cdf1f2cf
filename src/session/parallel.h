#pragma once

#include <functional>

namespace crossdock::session {

/// Threads for ipc::Parallel: as many as this process has cores, at most `most`. They are started and joined within one
/// call, so that a fork or an exit meets no thread of ours. Starting one takes some 20 µs, about as long as waking a
/// sleeping thread. They take no signals. If no thread can be started, the calling thread does all the work.
void run_parallel(int most, const std::function<void(int worker)>& work);

}  // namespace crossdock::session
