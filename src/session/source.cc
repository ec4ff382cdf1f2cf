#include "crossdock/session/source.h"

#include <utility>

#include "crossdock/core/error.h"

namespace crossdock::session {

Source Source::table(std::unique_ptr<array::BatchStream> stream) {
  Source source;
  source.kind_ = Kind::kTable;
  source.stream_ = std::move(stream);
  return source;
}

Source Source::table(array::RecordBatch batch) {
  std::vector<array::RecordBatch> one;
  one.push_back(std::move(batch));
  return table(std::move(one));
}

Source Source::table(std::vector<array::RecordBatch> batches) {
  if (batches.empty()) throw InvalidArgumentError("Source::table() needs a batch: the first one has the schema");
  auto schema = batches.front().schema;
  return table(array::make_stream(std::move(schema), std::move(batches)));
}

Source Source::live(std::unique_ptr<array::BatchStream> stream) {
  Source source;
  source.kind_ = Kind::kLive;
  source.stream_ = std::move(stream);
  return source;
}

Source Source::factory(std::function<std::unique_ptr<array::BatchStream>()> make) {
  Source source;
  source.kind_ = Kind::kFactory;
  source.make_ = std::move(make);
  return source;
}

Source Source::file(std::string path, Stability stability) {
  Source source;
  source.kind_ = Kind::kFile;
  source.path_ = std::move(path);
  source.stability_ = stability;
  return source;
}

Source Source::tensor(array::Tensor tensor) {
  std::vector<NamedTensor> one;
  one.push_back({.tensor = std::move(tensor)});
  return tensors(std::move(one));
}

Source Source::tensors(std::vector<NamedTensor> tensors) {
  Source source;
  source.kind_ = Kind::kTensors;
  source.tensors_ = std::move(tensors);
  return source;
}

}  // namespace crossdock::session
