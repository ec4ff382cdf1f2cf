#include "arguments.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>

#include "crossdock/core/error.h"

namespace crossdock::bench {

Arguments::Arguments(int argc, char** argv, std::initializer_list<const char*> known) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    const bool is_known =
        name.starts_with("--") && std::ranges::any_of(known, [&](const char* its) { return name.substr(2) == its; });
    if (!is_known) throw InvalidArgumentError("this program has no argument " + name);
    if (i + 1 == argc) throw InvalidArgumentError(name + " needs a value");
    values_[name.substr(2)] = argv[i + 1];
  }
}

std::string Arguments::text(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

std::int64_t Arguments::number(const std::string& name, std::int64_t otherwise) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return otherwise;
  const std::string& value = found->second;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size()) {
    throw InvalidArgumentError("--" + name + " is a whole number, not " + value);
  }
  return number;
}

transport::WaitMode Arguments::wait(const std::string& name) const {
  const std::string value = text(name, "auto");
  if (value == "spin") return transport::WaitMode::kSpin;
  if (value == "block") return transport::WaitMode::kBlock;
  if (value == "auto") return transport::WaitMode::kAuto;
  throw InvalidArgumentError("--" + name + " is spin, block or auto, not " + value);
}

int run(int argc, char** argv, std::initializer_list<const char*> known, void (*body)(const Arguments&)) {
  try {
    body(Arguments(argc, argv, known));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

}  // namespace crossdock::bench
