#include "peers/copy_in_parts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace crossdock::peers {
namespace {

constexpr std::size_t kBlockBytes = 1 << 20;

std::vector<std::byte> block_of(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + (i >> 11));
  return bytes;
}

/// Copies pieces of a block of so many bytes, and returns whether all of them, and nothing else, were written.
bool copies_all(const std::vector<std::size_t>& sizes, const CopyHelp& help) {
  const std::vector<std::byte> from = block_of(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
  std::vector<std::byte> expected(from.size() + 64 * (sizes.size() + 1), std::byte{0xAA});
  std::vector<std::byte> to = expected;
  std::vector<CopyPart> parts;
  std::size_t at = 0;
  std::size_t target = 64;
  for (const std::size_t size : sizes) {
    parts.push_back({to.data() + target, from.data() + at, size});
    if (size > 0) std::memcpy(expected.data() + target, from.data() + at, size);
    at += size;
    target += size + 64;
  }
  copy_in_parts(parts, help);
  return to == expected;
}

const std::vector<std::vector<std::size_t>> kSizes = {
    {1}, {100, 0, 3}, {8 * kBlockBytes}, {8 * kBlockBytes - 1, 1, 4 * kBlockBytes + 1}, {33 * kBlockBytes + 17, 5}};

TEST(CopyInParts, WithoutHelpEverythingIsCopied) {
  for (const auto& sizes : kSizes) EXPECT_TRUE(copies_all(sizes, {}));
}

TEST(CopyInParts, OtherThreadsHelp) {
  std::vector<std::thread> threads;
  const CopyHelp help{.run = [&](std::function<void()> task) { threads.emplace_back(std::move(task)); }, .most = 3};
  for (const auto& sizes : kSizes) EXPECT_TRUE(copies_all(sizes, help));
  EXPECT_EQ(threads.size(), 1u + 3u + 3u) << "no more than there are pieces for";
  for (std::thread& thread : threads) thread.join();
}

TEST(CopyInParts, HelpThatComesLateFindsNothingToDo) {
  std::vector<std::function<void()>> late;
  const CopyHelp help{.run = [&](std::function<void()> task) { late.push_back(std::move(task)); }, .most = 3};
  for (const auto& sizes : kSizes) EXPECT_TRUE(copies_all(sizes, help));
  for (const auto& task : late) task();  // what was copied is freed by now
}

TEST(CopyInParts, HelpThatIsRefusedIsNotNeeded) {
  const CopyHelp help{.run = [](const std::function<void()>&) { throw std::runtime_error("no thread"); }, .most = 3};
  for (const auto& sizes : kSizes) EXPECT_TRUE(copies_all(sizes, help));
}

}  // namespace
}  // namespace crossdock::peers
