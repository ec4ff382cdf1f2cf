#pragma once

#include <functional>
#include <string>
#include <vector>

#include "metadata_mutator.h"

namespace crossdock::ipc::testing {

/// A well-formed flatbuffer, and all that we read of it as text. Together the samples hold every table.
struct MetadataSample {
  std::string name;
  std::string root;  ///< As MetadataMutator has it.
  Bytes bytes;
  /// Throws what reading throws, whose texts begin with "the sample". What it lets through it checks: the numbers of
  /// batches and tensors fit their bodies, and what a schema or tensor became is the same after being written again.
  std::function<std::string(const Bytes&)> read;
};

std::vector<MetadataSample> metadata_samples();

}  // namespace crossdock::ipc::testing
