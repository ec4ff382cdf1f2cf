#include "session/selected_messages.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace crossdock::session {
namespace {

/// Whether a dictionary's values have a dictionary: then messages depend on earlier ones of other dictionaries.
bool has_nested_dictionaries(const array::Schema& schema) {
  return std::ranges::any_of(schema.dictionaries(),
                             [](const array::DictionarySlot& slot) { return !slot.values->dictionaries().empty(); });
}

}  // namespace

std::vector<std::uint32_t> selected_messages(const PublishedTable& table,
                                             std::span<const dissociated::BatchRange> ranges) {
  const bool all_dictionaries = has_nested_dictionaries(*table.schema);
  std::vector<std::uint32_t> selected{0};
  // By dictionary: the messages that the next batch needs, and that aren't selected yet.
  std::map<std::int64_t, std::vector<std::uint32_t>> dictionaries;
  std::uint32_t batch = 0;
  for (std::uint32_t i = 1; i < table.messages.size() && !ranges.empty(); ++i) {
    const DictionaryMark& mark = table.messages[i].dictionary;
    if (mark.id >= 0) {
      std::vector<std::uint32_t>& of_this = dictionaries[mark.id];
      if (!mark.is_delta && !all_dictionaries) of_this.clear();
      of_this.push_back(i);
      continue;
    }
    const dissociated::BatchRange& range = ranges.front();
    if (batch >= range.first) {
      const auto before = static_cast<std::ptrdiff_t>(selected.size());
      for (const auto& [id, messages] : dictionaries) selected.insert(selected.end(), messages.begin(), messages.end());
      std::sort(selected.begin() + before, selected.end());
      dictionaries.clear();
      selected.push_back(i);
      if (batch - range.first == range.count - 1) ranges = ranges.subspan(1);
    }
    ++batch;
  }
  return selected;
}

}  // namespace crossdock::session
