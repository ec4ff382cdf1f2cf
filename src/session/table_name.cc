#include "session/table_name.h"

#include <string>

#include "core/text.h"
#include "crossdock/core/error.h"

namespace crossdock::session {

void check_name(std::string_view name) {
  if (name.empty())
    throw InvalidArgumentError("a published name can't be empty: the empty ticket requests the catalog");
  if (name.starts_with(kReserved)) {
    throw InvalidArgumentError("the name " + shown(name, 60) + " is reserved: choose one that doesn't begin with " +
                               shown(kReserved));
  }
  if (name.size() > kMostName) {
    throw InvalidArgumentError("a name of " + std::to_string(name.size()) + " bytes is too long, " +
                               std::to_string(kMostName) + " are the most: " + shown(name, 60));
  }
}

}  // namespace crossdock::session
