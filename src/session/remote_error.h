#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace crossdock::session {

/// Returns the text of an error message (type 255): the error's class name, a colon, and its message. An exception that
/// isn't a crossdock::Error is sent as a RemoteError.
std::string to_remote_text(const std::exception& error);

/// Throws the error that such a text describes: of the class that it names, if a server may send that class; else
/// RemoteError with the whole text.
[[noreturn]] void throw_remote(std::string_view text, const std::string& where);

}  // namespace crossdock::session
