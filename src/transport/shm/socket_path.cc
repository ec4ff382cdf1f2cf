#include "socket_path.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "entries.h"
#include "transport/shm.h"

namespace crossdock::transport::shm {

const std::size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;

namespace {

constexpr std::string_view kSubfolder = "/crossdock";

bool is_letter_or_digit(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string current_folder(const std::string& path) {
  std::array<char, 4096> folder{};
  if (::getcwd(folder.data(), folder.size()) == nullptr) {
    throw_errno(errno, "making shm:" + excerpt(path) + " absolute: asking for the current folder");
  }
  return std::strcmp(folder.data(), "/") == 0 ? "" : folder.data();
}

/// Whether `path` is a folder that only this user can write to, with room for every name below it.
bool holds_user_folder(const std::string& path) {
  struct stat status {};
  return path.starts_with('/') &&
         path.size() + kSubfolder.size() + 1 + kMaxName + kSocketSuffix.size() <= kMaxSocketPath &&
         ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         (status.st_mode & 022) == 0 && ::access(path.c_str(), W_OK | X_OK) == 0;
}

/// Returns the reason why `folder`, which exists, isn't private to this user.
std::optional<std::string> shared_because(const std::string& folder) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) {
    return errno == ENOENT ? std::nullopt : std::optional<std::string>(std::strerror(errno));
  }
  if (!S_ISDIR(status.st_mode)) return "it is not a folder";
  if (status.st_uid != ::geteuid()) return "it belongs to user " + std::to_string(status.st_uid);
  if ((status.st_mode & 077) != 0)
    return "its mode gives other users access (to change that: chmod 700 " + folder + ")";
  return std::nullopt;
}

}  // namespace

/// Letters, digits, '.', '_' and '-', beginning with a letter or a digit: these have no special meaning in shells, URIs
/// and file systems.
bool is_name(std::string_view text) noexcept {
  return !text.empty() && text.size() <= kMaxName && is_letter_or_digit(text[0]) &&
         std::ranges::all_of(text, [](char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; });
}

std::string SocketPath::uri() const { return "shm:" + (name.empty() ? percent_encoded(path, "-._~/") : name); }

SocketPath read_address(const std::string& address) {
  if (address.find('\0') != std::string::npos || address.starts_with('@')) {
    const std::string_view given = address.c_str();
    const std::string text = excerpt(given);
    throw UriError(
        "shm:" + text + " is an abstract socket, which file permissions don't protect: give a name or a path" +
        (address.starts_with('@') && given.size() <= kMostShown ? " (./" + text + " for a file of this name)" : ""));
  }
  if (address.starts_with("//")) {
    // Other schemes are written like this; the socket would be in the root folder of the file system.
    const std::size_t first = std::min(address.find_first_not_of('/'), address.size());
    const std::string_view rest = std::string_view(address).substr(first);
    const bool is_path = first > 2 || rest.find('/') != std::string::npos;
    throw UriError("shm:" + excerpt(address) + " begins with //, which is for hosts, but shm: has no host: write shm:" +
                   (rest.empty() || rest.size() > kMostShown ? "NAME" : (is_path ? "/" : "") + excerpt(rest)));
  }
  if (address.find('/') == std::string::npos) {
    if (!is_name(address)) {
      throw UriError("shm:" + excerpt(address) +
                     " is neither a path nor a server's name: a path has a slash; a name has at most " +
                     std::to_string(kMaxName) +
                     " letters, digits, '.', '_' and '-', and begins with a letter or a digit");
    }
    return socket_of_name(address);
  }
  const std::string_view last = std::string_view(address).substr(address.rfind('/') + 1);
  if (last.empty() || last == "." || last == "..") {
    throw UriError("shm:" + excerpt(address) + " is the path of a folder: add a name for the socket");
  }
  SocketPath found{address.starts_with('/') ? address : current_folder(address) + "/" + address, ""};
  if (found.path.size() > kMaxSocketPath) {
    throw UriError("shm:" + excerpt(found.path) + " has a path of " + std::to_string(found.path.size()) +
                   " bytes, but the system's limit for sockets is " + std::to_string(kMaxSocketPath) +
                   ": choose a shorter one, or a name");
  }
  return found;
}

SocketPath socket_of_name(const std::string& name) {
  return {user_folder() + "/" + name + std::string(kSocketSuffix), name};
}

std::string user_folder() {
  const std::string uid = std::to_string(::geteuid());
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && holds_user_folder(runtime)) return runtime + std::string(kSubfolder);
  if (const std::string usual = "/run/user/" + uid; holds_user_folder(usual)) return usual + std::string(kSubfolder);
  return "/tmp/crossdock-" + uid;
}

void make_user_folder() {
  const std::string folder = user_folder();
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw_errno(errno, "making the folder " + folder);
  check_user_folder();
}

void check_user_folder() {
  const std::string folder = user_folder();
  if (const auto reason = shared_because(folder)) {
    throw PermissionError(folder + ", the folder of the sockets of this user's servers, isn't private: " + *reason +
                          "; correct that, set XDG_RUNTIME_DIR to a folder of your own, or give a path");
  }
}

}  // namespace crossdock::transport::shm

namespace crossdock::transport {

std::vector<std::string> shm_names() {
  shm::check_user_folder();
  std::vector<std::string> names;
  shm::for_each_entry(shm::user_folder(), [&](std::string_view entry) {
    if (!entry.ends_with(shm::kSocketSuffix)) return;
    const std::string_view name = entry.substr(0, entry.size() - shm::kSocketSuffix.size());
    if (shm::is_name(name)) names.emplace_back(name);
  });
  std::ranges::sort(names);
  return names;
}

}  // namespace crossdock::transport
