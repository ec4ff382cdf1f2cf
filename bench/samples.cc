#include "samples.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include "crossdock/core/error.h"

namespace crossdock::bench {
namespace {

// The same as in _samples.py: at least 20 stretches if there are as many samples.
constexpr std::size_t kLongestStretch = 256;
constexpr std::size_t kFewestStretches = 20;

}  // namespace

double Samples::stretch() const {
  const std::size_t length = std::clamp<std::size_t>(n_ / kFewestStretches, 1, kLongestStretch);
  std::vector<double> means;
  for (std::size_t from = 0; from + length <= n_; from += length) {
    const auto begin = values_.begin() + static_cast<std::ptrdiff_t>(from);
    const std::int64_t sum = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(length), std::int64_t{0});
    means.push_back(static_cast<double>(sum) / static_cast<double>(length));
  }
  if (means.empty()) return 0;
  const auto middle = means.begin() + static_cast<std::ptrdiff_t>(means.size() / 2);
  std::nth_element(means.begin(), middle, means.end());
  return *middle;
}

std::string Samples::json(const char* name) {
  const double typical = stretch();  // before the samples are sorted
  const auto end = values_.begin() + static_cast<std::ptrdiff_t>(n_);
  std::sort(values_.begin(), end);
  const auto at = [&](double part) {
    if (n_ == 0) return std::int64_t{0};
    return values_[std::min(n_ - 1, static_cast<std::size_t>(part * static_cast<double>(n_)))];
  };
  const std::int64_t sum = std::accumulate(values_.begin(), end, std::int64_t{0});
  const double mean = n_ == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(n_);
  std::string text = "\"" + std::string(name) + "\":{\"n\":" + std::to_string(n_);
  text += ",\"stretch\":" + std::to_string(typical);
  text += ",\"p50\":" + std::to_string(at(0.5)) + ",\"p90\":" + std::to_string(at(0.9));
  text += ",\"p99\":" + std::to_string(at(0.99)) + ",\"min\":" + std::to_string(at(0));
  text += ",\"max\":" + std::to_string(at(1)) + ",\"mean\":" + std::to_string(mean) + "}";
  return text;
}

ProcessMemory memory_of(const std::string& pid) {
  const std::string folder = "/proc/" + pid;
  ProcessMemory memory;
  // smaps_rollup walks the page tables: exact, where the counters of statm lag behind.
  std::ifstream rollup(folder + "/smaps_rollup");
  std::string word;
  while (rollup >> word) {
    if (word != "Rss:") continue;
    rollup >> memory.rss_kib;
    break;
  }
  if (memory.rss_kib == 0) throw SystemError("no memory figures in " + folder + "/smaps_rollup");
  const std::filesystem::directory_iterator descriptors(folder + "/fd");
  memory.descriptors = std::distance(begin(descriptors), end(descriptors));
  return memory;
}

}  // namespace crossdock::bench
