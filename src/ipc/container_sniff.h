#pragma once

#include <string>

#include "crossdock/core/bytes.h"

namespace crossdock::ipc {

/// Throws InvalidDataError that says what `file` is, if its first bytes are those of another well-known format.
void refuse_other_formats(ByteSpan file, const std::string& name);

}  // namespace crossdock::ipc
