#pragma once

#include <string>
#include <string_view>

#include "crossdock/core/unique_fd.h"

/// Removes the sockets of servers that were killed, from folders that hold nothing but servers' sockets.
namespace crossdock::transport::shm {

/// Whether `path` still names the file that is open as `file`.
bool still_at(const UniqueFd& file, const std::string& path) noexcept;

/// Removes the sockets of dead servers, with their locks, from `folder`: files "PREFIX*.sock" whose lock nobody holds.
/// Only for a folder that this user alone can write to. What can't be removed stays. True if anything went.
bool remove_dead_servers(const std::string& folder, std::string_view prefix = {}) noexcept;

/// Removes those with a picked name, "crossdock-*.sock", from each folder "crossdock-*" that this user owns in
/// `parent`, and the folder too if it is empty then.
void remove_dead_folders(const std::string& parent) noexcept;

}  // namespace crossdock::transport::shm
