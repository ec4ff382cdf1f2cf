#pragma once

#include <dirent.h>

#include <memory>
#include <string>
#include <string_view>

namespace crossdock::transport::shm {

/// Calls `visit` with the name of each entry of `folder`. Doesn't call it if the folder can't be read.
template <typename F>
void for_each_entry(const std::string& folder, F visit) {
  // Doesn't use std::filesystem: its iterator calls std::terminate if there is no memory.
  struct Close {
    void operator()(DIR* open) const noexcept { ::closedir(open); }
  };
  const std::unique_ptr<DIR, Close> open(::opendir(folder.c_str()));
  if (!open) return;
  while (const dirent* entry = ::readdir(open.get())) visit(std::string_view(entry->d_name));
}

}  // namespace crossdock::transport::shm
