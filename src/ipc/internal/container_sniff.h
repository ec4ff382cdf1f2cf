#pragma once

#include <string>

#include "core/bytes.h"

namespace crossdock::ipc {

/// Throws InvalidDataError, which names the format of `file`, if its first bytes are those of another well-known
/// format.
void refuse_other_formats(ByteSpan file, const std::string& name);

}  // namespace crossdock::ipc
