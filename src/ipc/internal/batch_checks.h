#pragma once

#include "ipc/metadata.h"

namespace crossdock::ipc {

/// Makes the length checks of Message::batch: the lengths of nodes and buffers agree with the number of rows, with
/// their parents' and with each other. Unknown null counts become 0 if the bitmap is absent. Throws InvalidDataError,
/// which begins with `where`.
void check_lengths(const array::Schema& schema, const char* where, BatchHeader* header);

}  // namespace crossdock::ipc
