#pragma once

#include <string>

#include "crossdock/array/record_batch.h"

namespace crossdock::array {

/// Returns the message ": the batch has ..., its schema asks for ..." for a batch whose counts don't agree with its
/// schema.
std::string counts_message(const RecordBatch& batch);

/// True if `dictionary` is a batch of one column of the slot's type. Compares one pointer if the dictionary was made
/// for the slot.
bool is_dictionary_of(const RecordBatch& dictionary, const DictionarySlot& slot);

}  // namespace crossdock::array
