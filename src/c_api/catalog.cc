#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "c_api/arguments.h"
#include "c_api/boundary.h"
#include "c_api/client_handle.h"
#include "crossdock/array/schema.h"
#include "crossdock/c_api/client.h"
#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/tensors.h"

using namespace crossdock::c_api;  // The functions below are C's, in no namespace.
namespace session = crossdock::session;

struct crossdock_catalog {
  explicit crossdock_catalog(std::vector<session::CatalogEntry> list) noexcept : entries(std::move(list)) {}
  std::vector<session::CatalogEntry> entries;
};

namespace {

const session::CatalogEntry& entry_at(const crossdock_catalog* catalog, std::size_t index) {
  const auto& entries = need(catalog, "catalog").entries;
  if (index < entries.size()) return entries[index];
  throw crossdock::InvalidArgumentError("there is no entry " + std::to_string(index) + "; the catalog has " +
                                        std::to_string(entries.size()));
}

std::int64_t kind_of(const session::CatalogEntry& entry) {
  if (entry.schema == nullptr) return CROSSDOCK_KIND_FACTORY;
  const auto tensors = session::tensor_content(*entry.schema);
  if (!tensors) return CROSSDOCK_KIND_TABLE;
  return tensors->single ? CROSSDOCK_KIND_TENSOR : CROSSDOCK_KIND_TENSORS;
}

}  // namespace

crossdock_status crossdock_client_list(crossdock_client* client, crossdock_catalog** catalog, crossdock_error** error) {
  return guarded(__func__, error, [&] {
    crossdock_catalog*& out = result(catalog, "catalog");
    need(client, "client");
    out = new crossdock_catalog(client->client.list({}, client->interrupted));
  });
}

void crossdock_catalog_release(crossdock_catalog** catalog) { release(catalog); }

size_t crossdock_catalog_size(const crossdock_catalog* catalog) {
  return catalog != nullptr ? catalog->entries.size() : 0;
}

crossdock_status crossdock_catalog_entry(const crossdock_catalog* catalog, size_t index, crossdock_entry* entry,
                                         crossdock_error** error) {
  return guarded(__func__, error, [&] {
    constexpr std::size_t kFirst = offsetof(crossdock_entry, kind) + sizeof(std::int64_t);
    clear_result(&need(entry, "entry"), kFirst, "crossdock_entry");
    const session::CatalogEntry& from = entry_at(catalog, index);
    crossdock_entry to{};
    to.name = {from.name.data(), from.name.size()};
    to.rows = from.rows;
    to.bytes = from.bytes;
    to.version = from.version;
    to.kind = kind_of(from);
    write_result(entry, to);
  });
}

crossdock_status crossdock_catalog_schema(const crossdock_catalog* catalog, size_t index, ArrowSchema* schema,
                                          crossdock_error** error) {
  return guarded(__func__, error, [&] {
    need(schema, "schema").release = nullptr;
    const session::CatalogEntry& entry = entry_at(catalog, index);
    if (kind_of(entry) != CROSSDOCK_KIND_TABLE) {
      throw crossdock::UnsupportedError("entry " + std::to_string(index) +
                                        " has no schema: it is a factory, or tensors");
    }
    crossdock::array::export_schema(*entry.schema, schema);
  });
}
