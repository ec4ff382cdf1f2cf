#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Finds the path of a socket from the address of a shm URI (docs/reference/protocol-shm.md, "Address").
namespace crossdock::transport::shm {

/// Longest path of a socket, by the system's limit.
extern const std::size_t kMaxSocketPath;

/// Longest name of a server, in bytes. Every name of this length fits into every folder that user_folder() returns.
inline constexpr std::size_t kMaxName = 48;

struct SocketPath {
  std::string path;  ///< Absolute.
  std::string name;  ///< Of the server, if the address was a name in the user's folder; else empty.

  /// The URI without parameters, percent-encoded: "shm:flights", "shm:/run/x.sock".
  std::string uri() const;
};

/// Parses an address: a name, or a path if it contains a slash. A relative path begins at the current folder. Opens no
/// file. Throws UriError for abstract sockets, names with invalid characters or more than kMaxName bytes, embedded
/// NULs, paths of folders ("/tmp/"), and paths over the system's limit.
SocketPath read_address(const std::string& address);

/// Whether the text is a valid name of a server.
bool is_name(std::string_view text) noexcept;

/// The end of file names of sockets in the user's folder.
inline constexpr std::string_view kSocketSuffix = ".sock";

/// Returns the socket of a valid name.
SocketPath socket_of_name(const std::string& name);

/// Returns the folder for the sockets of this user's names: "crossdock" in $XDG_RUNTIME_DIR, or else in /run/user/UID,
/// if that belongs to this user, no other user can write to it, and its path is short enough; or else
/// /tmp/crossdock-UID.
std::string user_folder();

/// Makes the user's folder if it doesn't exist. Throws PermissionError if it isn't private to this user.
void make_user_folder();

/// Throws PermissionError if the user's folder exists and isn't private to this user: another owner, a link, or a mode
/// that gives access to others.
void check_user_folder();

}  // namespace crossdock::transport::shm
