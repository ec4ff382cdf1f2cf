#include "array/internal/check_type.h"

#include "array/internal/text.h"

namespace crossdock::array {
namespace {

std::int32_t max_precision(TypeId id) noexcept {
  switch (id) {
    case TypeId::kDecimal32: return 9;
    case TypeId::kDecimal64: return 18;
    case TypeId::kDecimal128: return 38;
    case TypeId::kDecimal256: return 76;
    default: return 0;
  }
}

bool is_index_type(TypeId id) noexcept { return id >= TypeId::kInt8 && id <= TypeId::kUInt64; }

void check_parameters(const Type& type, const std::string& path) {
  const std::int32_t most = max_precision(type.id);
  if (most > 0 && (type.precision < 1 || type.precision > most)) {
    throw_invalid(path, type_name(type) + " needs a precision of 1 to " + std::to_string(most));
  }
  if (type.unit > TimeUnit::kNano) {
    throw_invalid(path, "time unit " + std::to_string(static_cast<int>(type.unit)) + " doesn't exist");
  }
  if (type.id == TypeId::kTime32 && type.unit > TimeUnit::kMilli) {
    throw_invalid(path, type_name(type) + " doesn't exist; time32 counts s or ms");
  }
  if (type.id == TypeId::kTime64 && type.unit < TimeUnit::kMicro) {
    throw_invalid(path, type_name(type) + " doesn't exist; time64 counts us or ns");
  }
  if ((type.id == TypeId::kFixedSizeBinary || type.id == TypeId::kFixedSizeList) && type.fixed_size < 0) {
    throw_invalid(path, type_name(type) + " has a negative size");
  }
}

/// Checks that each child has a different type id.
void check_union(const Field& field, const std::string& path) {
  const std::vector<std::int8_t>& codes = field.type.type_codes;
  if (codes.size() != field.children.size()) {
    throw_invalid(path, type_name(field.type) + " has " + std::to_string(codes.size()) + " type ids for " +
                            std::to_string(field.children.size()) + " child fields");
  }
  bool seen[128] = {};
  for (const std::int8_t code : codes) {
    if (code < 0 || seen[code]) {
      throw_invalid(path, type_name(field.type) + " " +
                              (code < 0 ? "has a negative type id" : "gives a type id to two children"));
    }
    seen[code] = true;
  }
}

void check_run_ends(const Field& field, const std::string& path) {
  const Field& ends = field.children.front();
  const bool fits = ends.type.id == TypeId::kInt16 || ends.type.id == TypeId::kInt32 || ends.type.id == TypeId::kInt64;
  if (!fits || ends.dictionary) {
    throw_invalid(path, std::string("its run ends are ") + (ends.dictionary ? "dictionary-encoded " : "") +
                            type_name(ends.type) + "; they must be int16, int32 or int64");
  }
}

}  // namespace

void check_type(const Field& field, const std::string& path) {
  if (static_cast<int>(field.type.id) >= kTypeCount) throw_invalid(path, type_name(field.type));
  check_parameters(field.type, path);
  if (field.dictionary && !is_index_type(field.type.id)) {
    throw_invalid(path, "dictionary indices are " + type_name(field.type) + "; they must be integers");
  }
  const std::int32_t expected = type_layout(field.type).n_children;
  if (expected >= 0 && field.children.size() != static_cast<std::size_t>(expected)) {
    throw_invalid(path, type_name(field.type) + " has " + std::to_string(expected) + " child fields, not " +
                            std::to_string(field.children.size()));
  }
  if (field.type.id == TypeId::kSparseUnion || field.type.id == TypeId::kDenseUnion) check_union(field, path);
  if (field.type.id == TypeId::kRunEndEncoded) check_run_ends(field, path);
  if (field.type.id == TypeId::kMap) {
    const Field& entries = field.children.front();
    if (entries.type.id != TypeId::kStruct || entries.children.size() != 2 || entries.dictionary) {
      throw_invalid(path, "a map's child must be a struct of two fields, key and value, not " +
                              type_name(entries.type) + " of " + std::to_string(entries.children.size()));
    }
  }
}

void check_limits(std::int64_t count, int depth, const std::string& path) {
  if (depth > kMaxDepth) throw_invalid(path, "nested deeper than " + std::to_string(kMaxDepth) + " levels");
  if (count <= kMaxFields) return;
  throw_invalid(path, "the schema has more than " + std::to_string(kMaxFields) + " fields; split the table");
}

}  // namespace crossdock::array
