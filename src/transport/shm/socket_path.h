#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// From the address of an shm URI to the path of a socket (docs/protocol-shm.md, "Address").
namespace crossdock::transport::shm {

/// Of a path of a socket, by the system's limit.
extern const std::size_t kMaxSocketPath;

/// Bytes of a server's name. Every name of this length fits into every folder that user_folder() chooses.
inline constexpr std::size_t kMaxName = 48;

struct SocketPath {
  std::string path;  ///< Absolute.
  std::string name;  ///< Of the server, if the address was a name in the user's folder; else empty.

  /// The URI without parameters, percent-encoded: "shm:flights", "shm:/run/x.sock".
  std::string uri() const;
};

/// Reads an address: a name, or a path if it has a slash. A relative path begins at the current folder. Opens no file.
/// Throws UriError for abstract sockets, names with other characters than a name may have or of more than kMaxName
/// bytes, embedded NULs, and paths over the system's limit.
SocketPath read_address(const std::string& address);

/// Whether a server may have this name.
bool is_name(std::string_view text) noexcept;

/// What the file names of sockets end in, in the user's folder.
inline constexpr std::string_view kSocketSuffix = ".sock";

/// The socket of a name, which read_address() would take.
SocketPath socket_of_name(const std::string& name);

/// The folder that holds the sockets of this user's names: "crossdock" in $XDG_RUNTIME_DIR, or else in /run/user/UID,
/// if that belongs to this user, nobody else can write to it, and its path is short enough; or else
/// /tmp/crossdock-UID.
std::string user_folder();

/// Makes the user's folder if it isn't there. Throws PermissionError if it isn't this user's alone.
void make_user_folder();

/// Throws PermissionError if the user's folder is there and isn't this user's alone: another owner, a link, or a mode
/// that lets others in.
void check_user_folder();

}  // namespace crossdock::transport::shm
