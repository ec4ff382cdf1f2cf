#pragma once

#include <string>
#include <utility>

#include "crossdock/ipc/file_writer.h"
#include "crossdock/transport/transport.h"

namespace crossdock::session {

/// Gathers what is written from where it lies (writev) into a descriptor, which stays the caller's. Where that doesn't
/// block (a pipe's), a wait for room asks the hook, and throws InterruptedError if it says stop.
class FileSink final : public ipc::Sink {
 public:
  FileSink(int fd, std::string name, const transport::InterruptHook& interrupted)
      : fd_(fd), name_(std::move(name)), interrupted_(interrupted) {}
  void write(std::span<const ByteSpan> pieces) override;

 private:
  void wait_for_room() const;

  int fd_;
  std::string name_;
  const transport::InterruptHook& interrupted_;
};

}  // namespace crossdock::session
