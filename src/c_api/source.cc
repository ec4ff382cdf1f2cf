#include "crossdock/c_api/source.h"

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "c_api/arguments.h"
#include "c_api/arrays_stream.h"
#include "c_api/boundary.h"
#include "c_api/managed_tensor.h"
#include "c_api/source_handle.h"
#include "c_api/stream_factory.h"
#include "crossdock/array/stream.h"
#include "crossdock/core/error.h"
#include "crossdock/session/source.h"

using namespace crossdock::c_api;  // The functions below are C's, in no namespace.
using crossdock::InvalidArgumentError;
using crossdock::session::Source;

namespace {

std::unique_ptr<crossdock::array::BatchStream> import_any(ArrowArrayStream* stream) {
  return crossdock::array::import_stream(stream);
}
std::unique_ptr<crossdock::array::BatchStream> import_any(ArrowDeviceArrayStream* stream) {
  return crossdock::array::import_device_stream(stream);
}

/// Takes `*stream` over, if nothing else can fail any more.
template <class Stream>
void from_stream(Stream* stream, Source (*make)(std::unique_ptr<crossdock::array::BatchStream>),
                 crossdock_source** source) {
  crossdock_source*& out = result(source, "source");
  if (need(stream, "stream").release == nullptr) throw InvalidArgumentError("the stream was released");
  // The handle is made first: memory that is missing must not cost the caller his stream.
  auto handle = std::make_unique<crossdock_source>();
  handle->source = make(import_any(stream));
  out = handle.release();
}

}  // namespace

void crossdock_source_release(crossdock_source** source) { release(source); }

crossdock_status crossdock_source_table(ArrowArrayStream* stream, crossdock_source** source, crossdock_error** error) {
  return guarded(__func__, error, [&] { from_stream(stream, &Source::table, source); });
}

crossdock_status crossdock_source_device_table(ArrowDeviceArrayStream* stream, crossdock_source** source,
                                               crossdock_error** error) {
  return guarded(__func__, error, [&] { from_stream(stream, &Source::table, source); });
}

crossdock_status crossdock_source_live(ArrowArrayStream* stream, crossdock_source** source, crossdock_error** error) {
  return guarded(__func__, error, [&] { from_stream(stream, &Source::live, source); });
}

crossdock_status crossdock_source_device_live(ArrowDeviceArrayStream* stream, crossdock_source** source,
                                              crossdock_error** error) {
  return guarded(__func__, error, [&] { from_stream(stream, &Source::live, source); });
}

crossdock_status crossdock_source_batches(const ArrowSchema* schema, ArrowArray* batches, size_t n,
                                          crossdock_source** source, crossdock_error** error) {
  return guarded(__func__, error, [&] {
    crossdock_source*& out = result(source, "source");
    auto stream = std::make_unique<ArraysStream>(need(schema, "schema"), array_of(batches, n, "batches"));
    ArraysStream& arrays = *stream;
    out = new crossdock_source{Source::table(std::move(stream))};
    arrays.take();
  });
}

crossdock_status crossdock_source_factory(crossdock_make_stream make, void (*free_user)(void* user), void* user,
                                          crossdock_source** source, crossdock_error** error) {
  return guarded(__func__, error, [&] {
    crossdock_source*& out = result(source, "source");
    if (make == nullptr) throw_null("make");
    const auto factory = std::make_shared<StreamFactory>(make, user);
    out = new crossdock_source{Source::factory([factory] { return factory->stream(); })};
    factory->own(free_user);
  });
}

crossdock_status crossdock_source_file(crossdock_string path, int32_t stability, crossdock_source** source,
                                       crossdock_error** error) {
  return guarded(__func__, error, [&] {
    crossdock_source*& out = result(source, "source");
    if (stability != CROSSDOCK_FILE_TRUST && stability != CROSSDOCK_FILE_SNAPSHOT) {
      throw InvalidArgumentError("stability is " + std::to_string(stability) +
                                 "; it is CROSSDOCK_FILE_TRUST or CROSSDOCK_FILE_SNAPSHOT");
    }
    const auto kind = stability == CROSSDOCK_FILE_SNAPSHOT ? crossdock::session::Stability::kSnapshot
                                                           : crossdock::session::Stability::kTrust;
    out = new crossdock_source{Source::file(c_text_of(path, "path"), kind)};
  });
}

crossdock_status crossdock_source_tensor(DLManagedTensorVersioned* tensor, crossdock_source** source,
                                         crossdock_error** error) {
  return guarded(__func__, error, [&] {
    crossdock_source*& out = result(source, "source");
    ManagedTensor managed(tensor);
    out = new crossdock_source{Source::tensor(managed.tensor())};
    managed.take();
  });
}

crossdock_status crossdock_source_tensors(const crossdock_named_tensor* tensors, size_t n, crossdock_source** source,
                                          crossdock_error** error) {
  return guarded(__func__, error, [&] {
    crossdock_source*& out = result(source, "source");
    std::vector<ManagedTensor> managed;
    std::vector<crossdock::session::NamedTensor> named;
    std::set<const DLManagedTensorVersioned*> seen;
    constexpr std::size_t kFirst = offsetof(crossdock_named_tensor, tensor) + sizeof(DLManagedTensorVersioned*);
    for (const crossdock_named_tensor& one : structs_of(tensors, n, kFirst, "tensors", "crossdock_named_tensor")) {
      if (one.tensor != nullptr && !seen.insert(one.tensor).second) {
        throw InvalidArgumentError(
            "tensors has the same DLManagedTensorVersioned twice: its deleter may be called once");
      }
      managed.emplace_back(one.tensor);
      named.push_back({texts_of(one.keys, one.n_keys, "keys"), managed.back().tensor()});
    }
    out = new crossdock_source{Source::tensors(std::move(named))};
    for (ManagedTensor& one : managed) one.take();
  });
}
