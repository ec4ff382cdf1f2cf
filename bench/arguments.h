#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>

#include "crossdock/transport/options.h"

namespace crossdock::bench {

/// `--name value` pairs, nothing else. Throws InvalidArgumentError for a name that the program doesn't know, and for a
/// value that isn't what it is asked as.
class Arguments {
 public:
  Arguments(int argc, char** argv, std::initializer_list<const char*> known);

  std::string text(const std::string& name, const std::string& otherwise = {}) const;
  std::int64_t number(const std::string& name, std::int64_t otherwise) const;
  transport::WaitMode wait(const std::string& name) const;  ///< spin, block or auto (the default)

 private:
  std::map<std::string, std::string> values_;
};

/// Runs a program's body; an exception goes to standard error and becomes exit status 1.
int run(int argc, char** argv, std::initializer_list<const char*> known, void (*body)(const Arguments&));

}  // namespace crossdock::bench
