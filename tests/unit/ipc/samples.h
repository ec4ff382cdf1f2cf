#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "crossdock/array/record_batch.h"
#include "crossdock/array/schema.h"
#include "ipc/metadata.h"

namespace crossdock::ipc::testing {

inline constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

array::Field field(std::string name, array::TypeId id);
array::Field field(std::string name, array::Type type, std::vector<array::Field> children = {});
array::Field dictionary(std::string name, array::TypeId index, array::Field values, std::int64_t id);

/// Every type, with its parameters at more than one value, nested and dictionary-encoded, with metadata.
std::shared_ptr<const array::Schema> every_type();
/// `n` float64 columns.
std::shared_ptr<const array::Schema> floats(int n);

/// A batch whose numbers are right for `schema`; all buffers are views of zeros. With `nulls`, each bitmap is there and
/// counts one null.
array::RecordBatch make_batch(std::shared_ptr<const array::Schema> schema, std::int64_t rows, bool nulls = false);

std::vector<std::byte> to_vector(ByteSpan bytes);

/// The text of the crossdock::Error of type E that `call` throws; "" if it throws none.
template <class E, class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return {};
}

}  // namespace crossdock::ipc::testing
