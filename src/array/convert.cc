#include "array/convert.h"

#include <algorithm>
#include <utility>

#include "array/internal/node_path.h"
#include "array/internal/reencode.h"
#include "array/internal/text.h"
#include "crossdock/core/error.h"

namespace crossdock::array {
namespace {

using Effort = Conversion::Effort;

/// Returns one type for all encodings of the same data.
TypeId data_of(TypeId id) noexcept {
  switch (id) {
    case TypeId::kLargeUtf8:
    case TypeId::kUtf8View: return TypeId::kUtf8;
    case TypeId::kLargeBinary:
    case TypeId::kBinaryView: return TypeId::kBinary;
    case TypeId::kLargeList: return TypeId::kList;
    default: return id;
  }
}

/// True if elements are single values, with a validity.
bool is_flat(const TypeLayout& layout) noexcept {
  return layout.n_buffers > 1 && layout.n_children == 0 && layout.has_validity();
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw UnsupportedTypeError(in_field(path) + " can't be exported as requested: " + what +
                             ". Only the encoding can be chosen: text and binary data with 32-bit or 64-bit offsets or "
                             "as views, lists with 32-bit or 64-bit offsets, flat types as dictionaries or plain. "
                             "Request the schema that there is, and cast the result");
}

void check_names(const std::vector<Field>& has, const std::vector<Field>& wants, bool named, const std::string& path) {
  if (has.size() != wants.size()) {
    refuse(path, "it has " + std::to_string(has.size()) + " fields, not " + std::to_string(wants.size()));
  }
  for (std::size_t i = 0; named && i < has.size(); ++i) {
    if (has[i].name == wants[i].name) continue;
    refuse(child_path(path, has[i].name, i), "\"" + excerpt(wants[i].name) + "\" is requested in its place");
  }
}

/// Returns the Arrow extension type of a field, with its parameters.
Metadata extension_of(const Field& field) {
  Metadata extension;
  std::ranges::copy_if(field.metadata, std::back_inserter(extension),
                       [](const auto& entry) { return entry.first.starts_with("ARROW:extension:"); });
  return extension;
}

bool is_leaf(const Type& type) noexcept { return type_layout(type).n_children == 0; }

/// Returns what it takes to export data of `has` as `want`. Throws if it can't be exported so.
Effort effort_of(const Field& has, const Field& want, const std::string& path) {
  const Metadata extension = extension_of(has);
  const Metadata wanted = extension_of(want);
  if (!extension.empty() && !wanted.empty() && extension != wanted) refuse(path, "its extension type is another");
  if (want.dictionary_ordered && !has.dictionary_ordered) refuse(path, "it has no ordered dictionary");
  Effort effort = has.nullable && !want.nullable ? Effort::kRead : Effort::kNone;
  if (has.dictionary && want.dictionary) {
    if (has.type != want.type || !has.dictionary->same_values(*want.dictionary)) effort = Effort::kRead;
    return std::max(effort, effort_of(*has.dictionary, *want.dictionary, path + ".dictionary"));
  }
  if (has.dictionary || want.dictionary) {
    const Field& values = has.dictionary ? want : *want.dictionary;
    effort = effort_of(has.dictionary ? *has.dictionary : has, values, path);
    if (!is_flat(type_layout(values.type))) refuse(path, "values of " + type_name(values.type) + " aren't flat");
    return std::max(effort, Effort::kRead);
  }
  if (data_of(has.type.id) != data_of(want.type.id) || (has.type.id == want.type.id && has.type != want.type)) {
    if (is_leaf(has.type) && is_leaf(want.type)) return Effort::kCast;
    refuse(path, "it is " + type_name(has.type) + ", not " + type_name(want.type));
  }
  check_names(has.children, want.children, has.type.id == TypeId::kStruct || !has.type.type_codes.empty(), path);
  if (has.type.id != want.type.id) effort = Effort::kRead;
  for (std::size_t i = 0; i < has.children.size(); ++i) {
    effort = std::max(effort, effort_of(has.children[i], want.children[i], child_path(path, has.children[i].name, i)));
  }
  return effort;
}

}  // namespace

Conversion::Conversion(const Schema& from, std::shared_ptr<const Schema> to, bool named) : to_(std::move(to)) {
  check_names(from.fields(), to_->fields(), named, "");
  for (std::size_t i = 0; i < from.fields().size(); ++i) {
    const Field& has = from.fields()[i];
    effort_ = std::max(effort_, effort_of(has, to_->fields()[i], child_path("", has.name, i)));
  }
}

RecordBatch Conversion::apply(RecordBatch batch, std::int64_t* copied) const {
  if (effort_ == Effort::kRead) return reencoded(std::move(batch), to_, copied);
  batch.schema = to_;
  return batch;
}

}  // namespace crossdock::array
