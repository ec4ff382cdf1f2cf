#include "core/memory_limit.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string_view>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock {
namespace {

constexpr std::uint64_t kNoLimit = UINT64_MAX;
constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 60;  // version 1 has a number of about 2^63 for no limit
/// The most that may be taken before the limits are read again.
constexpr std::uint64_t kStep = std::uint64_t{256} << 20;

/// The names of a version's files. All of them count a cgroup together with those below it.
struct Names {
  const char* limit;
  const char* used;
  /// The lines of memory.stat that count caches of files. Shared memory isn't among them.
  std::array<std::string_view, 2> caches;
  const char* swap_limit;
  const char* swap_used;
  bool swap_counts_memory;  ///< The swap's limit and use are those of memory and swap together.
};
constexpr Names kVersion1 = {
    "memory.limit_in_bytes",       "memory.usage_in_bytes",       {"total_inactive_file", "total_active_file"},
    "memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes", true};
constexpr Names kVersion2 = {"memory.max",      "memory.current",      {"inactive_file", "active_file"},
                             "memory.swap.max", "memory.swap.current", false};

/// The mount of a hierarchy of cgroups.
struct Mount {
  std::string root;  ///< The cgroup that the mount point shows.
  std::string point;
};

std::optional<std::uint64_t> number_of(std::string_view text) {
  if (text.starts_with("max")) return kNoLimit;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value >= kUnlimited ? kNoLimit : value;
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return number_of(line);
}

std::uint64_t read_caches(const std::string& path, const Names& names) {
  std::ifstream file(path);
  std::uint64_t sum = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string_view name(line.data(), space);
    if (std::ranges::find(names.caches, name) == names.caches.end()) continue;
    sum += number_of(std::string_view(line).substr(space + 1)).value_or(0);
  }
  return sum;
}

/// Returns whether `list`, separated by commas, has `word`.
bool has_word(std::string_view list, std::string_view word) {
  for (;;) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

/// Returns this process's cgroup for memory: that of version 1, if version 1 has a hierarchy for memory.
std::optional<std::string> find_cgroup(const std::string& path, const Names** names) {
  std::ifstream file(path);
  std::optional<std::string> unified;
  for (std::string line; std::getline(file, line);) {  // "4:memory:/a/b" or "0::/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (has_word(controllers, "memory")) {
      *names = &kVersion1;
      return line.substr(second + 1);
    }
    if (controllers.empty()) unified = line.substr(second + 1);
  }
  *names = &kVersion2;
  return unified;
}

/// Decodes a path of mountinfo, in which space, tab, line break and backslash are three octal digits.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, value, 8).ptr == text.data() + i + 4) {
      plain += static_cast<char>(value);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::optional<Mount> find_mount(const std::string& path, const Names* names) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    // ID PARENT DEVICE ROOT POINT OPTIONS [MORE...] - TYPE SOURCE OPTIONS
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream front(line.substr(0, dash));
    std::istringstream back(line.substr(dash + 3));
    std::string skipped;
    std::string root;
    std::string point;
    std::string type;
    std::string options;
    if (!(front >> skipped >> skipped >> skipped >> root >> point) || !(back >> type >> skipped >> options)) continue;
    const bool fits = names == &kVersion2 ? type == "cgroup2" : type == "cgroup" && has_word(options, "memory");
    if (fits) return Mount{unescaped(root), unescaped(point)};
  }
  return std::nullopt;
}

/// Returns the room that one cgroup leaves; nothing if it has no limit.
std::optional<MemoryRoom> room_of(const std::string& folder, const Names& names, std::uint64_t free_swap) {
  const auto limit = read_number(folder + "/" + names.limit);
  const auto used = read_number(folder + "/" + names.used);
  if (!limit || !used || *limit == kNoLimit) return std::nullopt;
  const auto minus_or_zero = [](std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; };
  const std::uint64_t caches = std::min(read_caches(folder + "/memory.stat", names), *used);
  const std::uint64_t not_droppable = *used - caches;
  std::uint64_t available = minus_or_zero(*limit, not_droppable);
  if (free_swap > 0) {
    // Swap that isn't accounted for isn't limited.
    const std::uint64_t swap_limit = read_number(folder + "/" + names.swap_limit).value_or(kNoLimit);
    const std::uint64_t swap_used = read_number(folder + "/" + names.swap_used).value_or(0);
    const std::uint64_t swap_kept = names.swap_counts_memory ? minus_or_zero(swap_used, caches) : swap_used;
    const std::uint64_t both = available + free_swap;
    if (names.swap_counts_memory) {
      available = std::min(both, minus_or_zero(swap_limit, swap_kept));
    } else {
      available += std::min(free_swap, minus_or_zero(swap_limit, swap_kept));
    }
  }
  return MemoryRoom{.cgroup = {}, .limit = *limit, .available = available};
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text.data();
}

std::uint64_t machine_swap() noexcept {
  struct sysinfo info {};
  return ::sysinfo(&info) == 0 ? std::uint64_t{info.freeswap} * info.mem_unit : 0;
}

std::optional<MemoryRoom> cgroup_room(const MemoryLimitFiles& files) {
  const Names* names = nullptr;
  const auto cgroup = find_cgroup(files.process + "/cgroup", &names);
  if (!cgroup) return std::nullopt;
  const auto mount = find_mount(files.process + "/mountinfo", names);
  if (!mount) return std::nullopt;
  // In a container the mount may show only a part of the tree: `relative` is this process's cgroup within that part.
  const std::string mount_root = mount->root == "/" ? "" : mount->root;
  const bool inside =
      cgroup->starts_with(mount_root) && (cgroup->size() == mount_root.size() || (*cgroup)[mount_root.size()] == '/');
  std::string relative = inside ? cgroup->substr(mount_root.size()) : "";
  while (relative.ends_with('/')) relative.pop_back();

  std::optional<MemoryRoom> least;
  for (;;) {
    auto room = room_of(files.root + mount->point + relative, *names, files.free_swap);
    if (room && (!least || room->available < least->available)) {
      room->cgroup = mount_root.empty() && relative.empty() ? std::string(1, '/') : mount_root + relative;
      least = std::move(room);
    }
    if (relative.empty()) return least;
    relative.resize(relative.rfind('/'));
  }
}

/// Returns the room that the machine leaves: memory that is free or can be made so, and free swap.
std::optional<MemoryRoom> machine_room(const MemoryLimitFiles& files) {
  std::ifstream file(files.root + "/proc/meminfo");
  std::optional<std::uint64_t> total;
  std::optional<std::uint64_t> available;
  for (std::string line; (!total || !available) && std::getline(file, line);) {  // "MemTotal:       24684084 kB"
    std::istringstream words(line);
    std::string name;
    std::uint64_t kibibytes = 0;
    if (!(words >> name >> kibibytes)) continue;
    if (name == "MemTotal:") total = kibibytes << 10;
    if (name == "MemAvailable:") available = kibibytes << 10;
  }
  if (!total || !available) return std::nullopt;
  return MemoryRoom{.cgroup = {}, .limit = *total, .available = *available + files.free_swap};
}

}  // namespace

std::optional<MemoryRoom> memory_room(const MemoryLimitFiles& files) {
  auto cgroup = cgroup_room(files);
  auto machine = machine_room(files);
  return !cgroup || (machine && machine->available < cgroup->available) ? machine : cgroup;
}

void check_memory_room(std::uint64_t size, const char* what) {
  static std::atomic<std::uint64_t> allowance{0};  // bytes that may be taken before the next read
  for (std::uint64_t left = allowance.load(std::memory_order_relaxed); left >= size;) {
    if (allowance.compare_exchange_weak(left, left - size, std::memory_order_relaxed)) return;
  }
  const auto room = memory_room({.free_swap = machine_swap()});
  if (!room) {
    allowance.store(kStep, std::memory_order_relaxed);
    return;
  }
  if (size > room->available) {
    const std::string needs = std::string(what) + " needs " + size_text(size) + ", but ";
    const std::string left = ") has only " + size_text(room->available) + " left: ";
    if (room->cgroup.empty()) {
      throw ResourceError(needs + "this machine (memory " + size_text(room->limit) + left + "use less memory at once");
    }
    throw ResourceError(needs + "the cgroup " + printable(room->cgroup) + " (memory limit " + size_text(room->limit) +
                        left + "raise the limit (memory.max, a container's memory limit), or use less memory at once");
  }
  allowance.store(std::min(kStep, (room->available - size) / 4), std::memory_order_relaxed);
}

}  // namespace crossdock
