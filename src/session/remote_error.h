#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace crossdock::session {

/// The text of an error message (type 255): the error's name, a colon, what it says. A foreign exception becomes a
/// RemoteError.
std::string to_remote_text(const std::exception& error);

/// Throws what such a text means: the class that it names, if that may come from a server; else RemoteError with the
/// whole text.
[[noreturn]] void throw_remote(std::string_view text, const std::string& where);

}  // namespace crossdock::session
