#include "array/internal/format.h"
#include "array/internal/metadata.h"
#include "array/internal/text.h"

namespace crossdock::array {
namespace {

/// The memory that one exported ArrowSchema points to. A child's ArrowSchema struct lies in its parent's `children`,
/// but its contents are separate: so it can be moved out and outlive the parent.
struct Contents {
  std::string format;
  std::string name;
  std::string metadata;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;
  ArrowSchema dictionary{};

  Contents() = default;
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;
  ~Contents() {
    for (ArrowSchema& child : children) {
      if (child.release != nullptr) child.release(&child);
    }
    if (dictionary.release != nullptr) dictionary.release(&dictionary);
  }
};

void release_schema(ArrowSchema* schema) noexcept {
  if (schema == nullptr || schema->release == nullptr) return;
  schema->release = nullptr;
  delete static_cast<Contents*>(std::exchange(schema->private_data, nullptr));
}

/// Refuses texts with NUL characters. Strings of the C interface end at the first NUL, so such a text would be
/// truncated silently.
void check_no_nul(const std::string& text, const char* what, const std::string& path) {
  if (text.find('\0') != std::string::npos) {
    throw_invalid(path, std::string("its ") + what +
                            " holds a NUL character, which the Arrow C data interface can't carry; rename it");
  }
}

void export_children(const std::vector<Field>& fields, const std::string& path, Contents* contents);

void finish(std::unique_ptr<Contents> contents, std::int64_t flags, ArrowSchema* out) noexcept {
  out->format = contents->format.c_str();
  out->name = contents->name.c_str();
  out->metadata = contents->metadata.empty() ? nullptr : contents->metadata.data();
  out->flags = flags;
  out->n_children = static_cast<std::int64_t>(contents->children.size());
  out->children = contents->pointers.empty() ? nullptr : contents->pointers.data();
  out->dictionary = contents->dictionary.release != nullptr ? &contents->dictionary : nullptr;
  out->release = release_schema;
  out->private_data = contents.release();
}

void export_at(const Field& field, const std::string& path, ArrowSchema* out) {
  check_no_nul(field.name, "name", path);
  check_no_nul(field.type.timezone, "timezone", path);
  auto contents = std::make_unique<Contents>();
  contents->format = write_format(field.type);
  contents->name = field.name;
  contents->metadata = write_metadata(field.metadata, path);
  export_children(field.children, path, contents.get());
  std::int64_t flags = field.nullable ? ARROW_FLAG_NULLABLE : 0;
  if (field.type.keys_sorted) flags |= ARROW_FLAG_MAP_KEYS_SORTED;
  if (field.dictionary) {
    export_at(*field.dictionary, path + ".dictionary", &contents->dictionary);
    if (field.dictionary_ordered) flags |= ARROW_FLAG_DICTIONARY_ORDERED;
  }
  finish(std::move(contents), flags, out);
}

void export_children(const std::vector<Field>& fields, const std::string& path, Contents* contents) {
  // Zeroes the children: if a later step throws, those not exported yet have no release.
  contents->children.resize(fields.size());
  contents->pointers.reserve(fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    export_at(fields[i], child_path(path, fields[i].name, i), &contents->children[i]);
    contents->pointers.push_back(&contents->children[i]);
  }
}

}  // namespace

void export_schema(const Schema& schema, ArrowSchema* out) {
  *out = ArrowSchema{};
  auto contents = std::make_unique<Contents>();
  contents->format = "+s";
  contents->metadata = write_metadata(schema.metadata(), "");
  export_children(schema.fields(), "", contents.get());
  finish(std::move(contents), 0, out);
}

void export_field(const Field& field, ArrowSchema* out) {
  *out = ArrowSchema{};
  export_at(field, excerpt(field.name), out);
}

}  // namespace crossdock::array
