#pragma once

#include <string>
#include <string_view>

#include "core/unique_fd.h"

/// Removes the sockets of killed servers, from folders that contain only servers' sockets.
namespace crossdock::transport::shm {

/// Whether `path` still names the file that is open as `file`.
bool still_at(const UniqueFd& file, const std::string& path) noexcept;

/// Removes the sockets of dead servers, with their locks, from `folder`: files "PREFIX*.sock" whose lock no process
/// holds. Only for a folder to which only this user can write. Files that can't be removed stay. Returns true if any
/// file was removed.
bool remove_dead_servers(const std::string& folder, std::string_view prefix = {}) noexcept;

/// Removes sockets with a picked name, "crossdock-*.sock", from each folder "crossdock-*" that this user owns in
/// `parent`, and the folder too if it is empty afterwards.
void remove_dead_folders(const std::string& parent) noexcept;

}  // namespace crossdock::transport::shm
