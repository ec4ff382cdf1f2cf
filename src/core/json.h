#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The little JSON (RFC 8259) that metadata has: strings, whole numbers, lists and objects.
namespace crossdock {

/// Reads such a text from its start. Each call skips white space, and returns false if the text goes on otherwise; then
/// how much was read is unspecified. Strings aren't checked to be UTF-8.
class JsonReader {
 public:
  /// `text` must outlive it.
  explicit JsonReader(std::string_view text) : rest_(text) {}

  bool take(char expected);
  bool at_end();
  /// Appends the text that a string stands for.
  bool string(std::string* out);
  bool integer(std::int64_t* out);
  /// Reads a list, whose elements `element()` reads, one each.
  template <class Element>
  bool list(Element element) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!element()) return false;
    } while (take(','));
    return take(']');
  }
  /// Reads an object, of whose members `member(name)` reads the values, one each. The same name may come again.
  template <class Member>
  bool object(Member member) {
    if (!take('{')) return false;
    if (take('}')) return true;
    do {
      std::string name;
      if (!string(&name) || !take(':') || !member(name)) return false;
    } while (take(','));
    return take('}');
  }
  /// Appends the numbers of a list; at most `most`.
  bool integers(std::vector<std::int64_t>* out, std::size_t most);
  /// Skips a value. Returns false for one that nests deeper than kMostDepth.
  bool skip() { return skip(kMostDepth); }
  static constexpr int kMostDepth = 16;

 private:
  void skip_space();
  bool skip(int depth);
  bool escape(std::string* out);
  bool hex(std::uint32_t* out);

  std::string_view rest_;
};

/// Appends a string with its quotes. Other bytes than control characters, quotes and backslashes stay as they are.
void append_json(std::string_view text, std::string* out);
/// Returns a list of whole numbers.
std::string json_of(std::span<const std::int64_t> numbers);

}  // namespace crossdock
