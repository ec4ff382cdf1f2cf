#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crossdock/session/client.h"
#include "crossdock/session/tensors.h"
#include "session/client_pool.h"
#include "session/reader_impl.h"
#include "transport/body_memory.h"

namespace crossdock::session {

/// Reads one stream of tensors. Trusts nothing in it: a foreign server may send any data, without end. Use it from one
/// thread at a time. The tensors may outlive it.
class TensorReader {
 public:
  /// Requests the stream, as Reader::Impl does, and throws as that does.
  TensorReader(std::shared_ptr<ClientPool> from, std::shared_ptr<ClientPool> data_from, const std::string& name,
               const TensorOptions& options, const transport::InterruptHook& interrupted);

  /// Returns the next tensor; nothing at the end. With TensorOptions::out, its elements are there. Throws as
  /// Client::tensors().
  std::optional<NamedTensor> next();
  /// The bytes that were copied so far, as TensorOptions::bytes_copied says.
  std::uint64_t bytes_copied() const noexcept { return copied_ + reader_.bytes_copied; }
  std::int64_t version() const noexcept { return reader_.version; }
  /// Whether the server has said that the stream has one tensor without a path, or several; nothing if it hasn't.
  std::optional<bool> single() const;

 private:
  void count(const ipc::TensorHeader& header);
  array::Tensor received(const ipc::TensorHeader& header, const array::RecordBatch& bytes);
  void align(array::Tensor* tensor);

  const TensorOptions options_;
  const std::string name_;
  const std::shared_ptr<Runtime> runtime_;
  Reader::Impl reader_;
  std::uint64_t tensors_ = 0;
  std::uint64_t path_bytes_ = 0;
  std::uint64_t copied_ = 0;
  std::uint64_t aligned_ = 0;  // the part of these that align() has copied
  const std::shared_ptr<transport::BodyMemory> memory_ = transport::make_body_pool();  // for these
};

/// Reads a stream that must have exactly one tensor, without a path: Client::tensor().
array::Tensor read_tensor(TensorReader* reader, const std::string& name);
/// Reads a stream of tensors with paths: Client::tensors().
std::vector<NamedTensor> read_tensors(TensorReader* reader, const std::string& name);

}  // namespace crossdock::session
