#pragma once

#include <limits>
#include <string>

#include "crossdock/array/record_batch.h"

namespace crossdock::array {

/// Returns the message ": the batch has ..., its schema asks for ..." for a batch whose counts don't agree with its
/// schema.
std::string counts_message(const RecordBatch& batch);

/// True if `dictionary` is a batch of one column of the slot's type. Compares one pointer if the dictionary was made
/// for the slot.
bool is_dictionary_of(const RecordBatch& dictionary, const DictionarySlot& slot);

/// Throws InvalidArgumentError, which names `function`, if the batch isn't host_readable().
void check_readable(const RecordBatch& batch, const char* function);

/// Calls `fail` with a message if the node's length, offset or null count is out of range.
template <typename Fail>
void check_node(const Node& node, const Fail& fail) {
  if (node.length < 0 || node.offset < 0 || node.length > std::numeric_limits<std::int64_t>::max() - node.offset) {
    fail("length " + std::to_string(node.length) + " and offset " + std::to_string(node.offset) + " are invalid");
  }
  if (node.null_count < -1 || node.null_count > node.length) {
    fail("null count " + std::to_string(node.null_count) + " is out of range for length " +
         std::to_string(node.length));
  }
}

}  // namespace crossdock::array
