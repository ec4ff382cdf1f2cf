#include "array/internal/node_path.h"

#include "array/internal/text.h"

namespace crossdock::array {
namespace {

bool find(const std::vector<Field>& fields, const Field* wanted, const std::string& parent, std::string* path) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string here = child_path(parent, fields[i].name, i);
    if (&fields[i] == wanted) {
      *path = here;
      return true;
    }
    if (find(fields[i].children, wanted, here, path)) return true;
  }
  return false;
}

}  // namespace

std::string node_path(const Schema& schema, std::size_t node) {
  std::string path;
  if (node < schema.nodes().size()) find(schema.fields(), schema.nodes()[node].field, "", &path);
  return path;
}

std::string path_of(const Place* place) {
  if (place == nullptr) return {};
  const std::string above = path_of(place->parent);
  std::string here = node_path(*place->schema, place->node);
  if (above.empty()) return here;
  // The only field of a dictionary usually has no name.
  constexpr std::string_view kUnnamed = "[0]";
  if (here.starts_with(kUnnamed)) return above + ".dictionary" + here.substr(kUnnamed.size());
  return above + ".dictionary" + (here.empty() ? "" : "." + here);
}

}  // namespace crossdock::array
