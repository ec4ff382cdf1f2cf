#include "array/same_memory.h"

#include <algorithm>

namespace crossdock::array {

bool same_memory(const RecordBatch& a, const RecordBatch& b) noexcept {
  const auto same_buffer = [](const BufferView& x, const BufferView& y) {
    return x.data == y.data && x.size == y.size;
  };
  const auto same_node = [](const Node& x, const Node& y) { return x.length == y.length && x.offset == y.offset; };
  return std::ranges::equal(a.buffers, b.buffers, same_buffer) && std::ranges::equal(a.nodes, b.nodes, same_node);
}

}  // namespace crossdock::array
