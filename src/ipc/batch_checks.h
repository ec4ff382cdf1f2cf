#pragma once

#include "crossdock/ipc/metadata.h"

namespace crossdock::ipc {

/// What Message::batch checks of lengths: that those of nodes and buffers agree with the number of rows, with their
/// parents' and with each other. Absent bitmaps make unknown null counts 0. Throws InvalidDataError that begins with
/// `where`.
void check_lengths(const array::Schema& schema, const char* where, BatchHeader* header);

}  // namespace crossdock::ipc
