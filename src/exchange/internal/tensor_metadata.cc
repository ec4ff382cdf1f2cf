#include "exchange/internal/tensor_metadata.h"

#include <algorithm>
#include <charconv>

#include "crossdock/core/error.h"

namespace crossdock::exchange {
namespace {

/// A reader for the subset of JSON that this metadata uses. The accepted syntax bounds the nesting.
class Json {
 public:
  explicit Json(std::string_view text) : rest_(text) {}

  [[noreturn]] static void fail() {
    throw InvalidDataError(
        "the metadata of an arrow.fixed_shape_tensor isn't a JSON object with a \"shape\" that is a list of ints");
  }
  bool take(char expected) {
    skip_space();
    if (rest_.empty() || rest_.front() != expected) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void require(char expected) {
    if (!take(expected)) fail();
  }
  /// Returns the raw text between the quotes.
  std::string_view string() {
    require('"');
    std::size_t end = 0;
    while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) fail();
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }
  std::vector<std::int64_t> integers() {
    require('[');
    std::vector<std::int64_t> numbers;
    if (take(']')) return numbers;
    do {
      skip_space();
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
      if (error != std::errc{}) fail();
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      numbers.push_back(number);
    } while (take(','));
    require(']');
    return numbers;
  }
  /// Skips a value of one level: a string, a word or number, or a list of them.
  void skip_value() {
    skip_space();
    if (rest_.empty()) fail();
    if (rest_.front() == '"') {
      string();
      return;
    }
    if (take('[')) {
      if (take(']')) return;
      do skip_scalar();
      while (take(','));
      require(']');
      return;
    }
    skip_scalar();
  }
  bool at_end() {
    skip_space();
    return rest_.empty();
  }

 private:
  void skip_space() {
    while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_.front()) != std::string_view::npos) {
      rest_.remove_prefix(1);
    }
  }
  void skip_scalar() {
    skip_space();
    if (!rest_.empty() && rest_.front() == '"') {
      string();
      return;
    }
    const std::size_t end = std::min(rest_.find_first_of(",]} \t\r\n[{\""), rest_.size());
    if (end == 0) fail();
    rest_.remove_prefix(end);
  }

  std::string_view rest_;
};

}  // namespace

ElementShape read_element_shape(std::string_view json) {
  Json reader(json);
  ElementShape element;
  bool has_shape = false;
  reader.require('{');
  if (!reader.take('}')) {
    do {
      const std::string_view key = reader.string();
      reader.require(':');
      if (key == "shape") {
        element.shape = reader.integers();
        has_shape = true;
      } else if (key == "permutation") {
        element.permutation = reader.integers();
      } else {
        reader.skip_value();
      }
    } while (reader.take(','));
    reader.require('}');
  }
  if (!has_shape || !reader.at_end()) Json::fail();
  for (const std::int64_t extent : element.shape) {
    if (extent < 0) throw InvalidDataError("an arrow.fixed_shape_tensor has a negative extent in its shape");
  }
  if (element.permutation.empty()) return element;
  std::vector<std::int64_t> sorted = element.permutation;
  std::ranges::sort(sorted);
  bool permutation = sorted.size() == element.shape.size();
  for (std::size_t d = 0; d < sorted.size(); ++d)
    permutation = permutation && sorted[d] == static_cast<std::int64_t>(d);
  if (!permutation) {
    throw InvalidDataError("an arrow.fixed_shape_tensor has a permutation that doesn't name each dimension once");
  }
  return element;
}

std::string write_element_shape(std::span<const std::int64_t> shape) {
  std::string json = "{\"shape\":[";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d > 0) json += ",";
    json += std::to_string(shape[d]);
  }
  return json + "]}";
}

const std::string* find_value(const array::Metadata& metadata, std::string_view key) noexcept {
  for (const auto& [name, value] : metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

}  // namespace crossdock::exchange
