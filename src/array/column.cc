#include "crossdock/array/column.h"

#include <cstdint>
#include <limits>

#include "array/internal/bits.h"
#include "array/internal/text.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

// True if a buffer holds elements up to `end`, which is at least 1. Buffers whose size isn't known are taken as large
// enough, and so are the bytes that offsets point into: those are checked when they are followed.
bool holds(const BufferView& buffer, BufferKind kind, std::int32_t width, std::int64_t end) {
  if (kind == BufferKind::kBytes || !buffer.size_known()) return true;
  if (kind == BufferKind::kValidity && buffer.data == nullptr) return true;
  const std::int64_t size = buffer.data == nullptr ? 0 : buffer.size;  // whatever it says
  if (kind == BufferKind::kValidity || kind == BufferKind::kBits) return bytes_for_bits(end) <= size;
  if (kind == BufferKind::kOffsets32) return end < size / std::int64_t{sizeof(std::int32_t)};
  if (kind == BufferKind::kOffsets64) return end < size / std::int64_t{sizeof(std::int64_t)};
  const std::int32_t bytes = element_width(kind, width);
  return bytes == 0 || end <= size / bytes;
}

std::string shown_type(const Field& field) {
  if (!field.dictionary) return type_name(field.type);
  return "dictionary<" + type_name(field.dictionary->type) + ", indices " + type_name(field.type) + ">";
}

}  // namespace

void check_elements(const ColumnView& column, std::size_t alignment) {
  const auto fail = [&](const char* what) { throw_invalid(excerpt(column.field().name), what); };
  const std::int64_t length = column.length();
  if (length < 0 || column.offset() < 0 || length > std::numeric_limits<std::int64_t>::max() - column.offset()) {
    fail("its length or its offset is out of range");
  }
  if (length == 0) return;
  const TypeLayout layout = type_layout(column.field().type);
  for (std::size_t i = 0; i < layout.n_buffers; ++i) {
    if (!holds(column.buffers()[i], layout.buffers[i], layout.width, column.offset() + length)) {
      fail("a buffer is too small for the elements that the column says it has");
    }
  }
  if (alignment > 1 && reinterpret_cast<std::uintptr_t>(column.first_element()) % alignment != 0) {
    fail("its elements aren't aligned as C++ asks for; array::ColumnView::value() reads them one by one");
  }
}

void throw_wrong_column_type(const Field& field, const Field& asked) {
  const std::string type = cpp_type_name(field);
  throw InvalidArgumentError("column \"" + excerpt(field.name) + "\" is of type " + shown_type(field) +
                             ", and was asked for as " + cpp_type_name(asked) + "; " +
                             (type.empty() ? std::string("array::ColumnView reads it") : "ask for " + type));
}

}  // namespace crossdock::array
