#include "array/internal/metadata.h"

#include <cstring>
#include <limits>

#include "array/internal/text.h"

namespace crossdock::array {
namespace {

class Reader {
 public:
  Reader(const char* at, const std::string& path) : at_(at), path_(path) {}

  std::int32_t number(const char* what) {
    std::int32_t value;
    std::memcpy(&value, at_, sizeof value);
    if (value < 0) {
      throw_invalid(path_, std::string("metadata ") + what + " is negative (" + std::to_string(value) +
                               "); the blob doesn't follow the Arrow C data interface");
    }
    at_ += sizeof value;
    return value;
  }

  std::string text(const char* what) {
    const auto size = static_cast<std::size_t>(number(what));
    std::string out(at_, size);
    at_ += size;
    return out;
  }

 private:
  const char* at_;
  const std::string& path_;
};

void append_number(std::size_t value, const std::string& path, std::string* out) {
  if (value > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw_invalid(path, "metadata of " + std::to_string(value) +
                            " bytes or pairs is more than the Arrow C data interface can hold (2147483647)");
  }
  const auto number = static_cast<std::int32_t>(value);
  out->append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

Metadata read_metadata(const char* blob, const std::string& path) {
  Metadata metadata;
  if (blob == nullptr) return metadata;
  Reader reader(blob, path);
  // Reserves nothing, because the count is only the producer's claim; pairs are added as they are found.
  for (std::int32_t left = reader.number("count"); left > 0; --left) {
    std::string key = reader.text("key length");
    std::string value = reader.text("value length");
    metadata.emplace_back(std::move(key), std::move(value));
  }
  return metadata;
}

std::string write_metadata(const Metadata& metadata, const std::string& path) {
  std::string out;
  if (metadata.empty()) return out;
  append_number(metadata.size(), path, &out);
  for (const auto& [key, value] : metadata) {
    append_number(key.size(), path, &out);
    out += key;
    append_number(value.size(), path, &out);
    out += value;
  }
  return out;
}

}  // namespace crossdock::array
