#include "ipc/internal/container_sniff.h"

#include <algorithm>
#include <string_view>

#include "crossdock/core/error.h"

namespace crossdock::ipc {
namespace {

struct Signature {
  std::string_view start;
  std::string_view means;
};

using namespace std::string_view_literals;

constexpr Signature kSignatures[] = {
    {"PAR1"sv, "looks like Parquet; read it with a Parquet reader and write an Arrow IPC file"sv},
    {"PARE"sv, "looks like encrypted Parquet; read it with a Parquet reader and write an Arrow IPC file"sv},
    {"FEA1"sv, "looks like Feather V1; read it with Feather and write an Arrow IPC file (Feather V2)"sv},
    {"ORC"sv, "looks like ORC; read it with an ORC reader and write an Arrow IPC file"sv},
    {"\x1f\x8b"sv, "looks gzip-compressed; unpack it first"sv},
    {"\x28\xb5\x2f\xfd"sv, "looks Zstandard-compressed; unpack it first"sv},
    {"\x04\x22\x4d\x18"sv, "looks LZ4-compressed; unpack it first"sv},
    {"BZh"sv, "looks bzip2-compressed; unpack it first"sv},
    {"\xfd"
     "7zXZ\0"sv,
     "looks xz-compressed; unpack it first"sv},
    {"PK\x03\x04"sv, "looks like a zip archive; unpack it first"sv},
    {"\x89HDF"sv, "looks like HDF5"sv},
    {"\x93NUMPY"sv, "looks like a NumPy array file"sv},
    {"SQLite format 3"sv, "looks like an SQLite database"sv},
};

bool is_text(std::string_view start) {
  return std::all_of(start.begin(), start.end(),
                     [](char c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\r' || c == '\t'; });
}

}  // namespace

void refuse_other_formats(ByteSpan file, const std::string& name) {
  const std::string_view start = as_text(file.first(std::min<std::size_t>(file.size(), 16)));
  for (const Signature& known : kSignatures) {
    if (start.starts_with(known.start)) {
      throw InvalidDataError(name + " isn't an Arrow IPC file: this " + std::string(known.means));
    }
  }
  // An Arrow stream begins with 0xFFFFFFFF or a length whose top byte is 0: never with text.
  if (is_text(start)) {
    throw InvalidDataError(name +
                           " isn't an Arrow IPC file: this looks like text (CSV or JSON?). Read it into a table " +
                           "first, in Python with pyarrow.csv.read_csv() or pyarrow.json.read_json()");
  }
}

}  // namespace crossdock::ipc
