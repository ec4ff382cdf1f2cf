#pragma once

#include <string>
#include <utility>

#include "ipc/file_writer.h"
#include "transport/transport.h"

namespace crossdock::session {

/// Writes data directly from its memory (writev) to a descriptor, which the caller continues to own. If the descriptor
/// is non-blocking (a pipe), a wait for room calls the hook, and throws InterruptedError if the hook returns true.
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
