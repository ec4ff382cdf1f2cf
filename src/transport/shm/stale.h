#pragma once

#include <string>

#include "crossdock/core/unique_fd.h"

/// What servers leave behind when they are killed, at paths that were picked for them and that nobody will ask for
/// again.
namespace crossdock::transport::shm {

/// Whether `path` still names the file that is open as `file`.
bool still_at(const UniqueFd& file, const std::string& path) noexcept;

/// Removes sockets of dead servers, with their locks, from a folder that only this user can write to: those with a
/// picked name, "crossdock-*.sock", whose lock nobody holds. What can't be removed stays. True if anything went.
bool remove_dead_servers(const std::string& folder) noexcept;

/// The same in each folder "crossdock-*" that this user owns in `parent`, and the folder too if it is empty then.
void remove_dead_folders(const std::string& parent) noexcept;

}  // namespace crossdock::transport::shm
