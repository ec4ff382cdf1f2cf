#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz.h"

/// A fuzz target without a fuzzer, for the ordinary build: runs every file of a corpus, each as it is, cut short at
/// every byte, and with every byte changed; of a large file at some 512 places or more, evenly apart, instead of every
/// byte. Prints how many inputs that were; no file at all is an error.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::size_t inputs = 0;
  // In memory of its own and exact size each time, so that a sanitizer sees a read past its end.
  const auto run = [&](const std::vector<std::uint8_t>& input) {
    const std::vector<std::uint8_t> exact(input);
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
    ++inputs;
  };
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    std::vector<std::uint8_t> input((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    run(input);
    const std::size_t step = std::max<std::size_t>(1, input.size() / 512);
    for (std::size_t size = 0; size < input.size(); size += step) {
      run(std::vector<std::uint8_t>(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(size)));
    }
    for (std::size_t at = 0; at < input.size(); at += step) {
      for (const unsigned change : {0x01u, 0x80u, 0xFFu}) {
        std::vector<std::uint8_t> changed = input;
        changed[at] = static_cast<std::uint8_t>(changed[at] ^ change);
        run(changed);
      }
    }
  }
  std::printf("%zu inputs from %zu files\n", inputs, files.size());
  return files.empty() ? 1 : 0;
}
