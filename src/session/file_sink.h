#pragma once

#include <string>

#include "crossdock/ipc/file_writer.h"

namespace crossdock::session {

/// Gathers what is written from where it lies (writev) into a descriptor, which stays the caller's.
class FileSink final : public ipc::Sink {
 public:
  FileSink(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  void write(std::span<const ByteSpan> pieces) override;

 private:
  int fd_;
  std::string name_;
};

}  // namespace crossdock::session
