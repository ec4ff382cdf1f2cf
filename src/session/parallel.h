#pragma once

#include <functional>

namespace crossdock::session {

/// Threads for ipc::Parallel: as many as there are cores for this process, at most `most`; started for one call and
/// joined by it, so that nothing is left for forks and exits to trip over. Their start takes some 20 µs each, about
/// what waking a sleeping one does. They take no signals. Where none can be started the caller's thread does it all.
void run_parallel(int most, const std::function<void(int worker)>& work);

}  // namespace crossdock::session
