#include "crossdock/c_api/tensor.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "c_api/arguments.h"
#include "c_api/boundary.h"
#include "c_api/client_handle.h"
#include "crossdock/array/tensor.h"
#include "crossdock/core/error.h"
#include "crossdock/exchange/dlpack.h"
#include "crossdock/session/client.h"
#include "crossdock/session/tensors.h"

using namespace crossdock::c_api;  // The functions below are C's, in no namespace.
namespace session = crossdock::session;

struct crossdock_tensors {
  struct One {
    std::vector<std::string> path;
    std::optional<crossdock::array::Tensor> tensor;  ///< Nullopt once it was taken.
  };
  std::vector<One> all;
};

namespace {

session::TensorOptions tensor_options(const crossdock_tensor_options* given) {
  constexpr std::size_t kFirst = offsetof(crossdock_tensor_options, copy_on_write) + sizeof(std::int64_t);
  const auto read = options_of(given, kFirst, "crossdock_tensor_options");
  session::TensorOptions options;
  if (read.timeout_ms != 0) options.timeout = time_limit(read.timeout_ms);
  options.device = device_of(read.device_type, read.device_id);
  options.wait = wait_of(read.wait);
  options.copy_on_write = read.copy_on_write != 0;
  return options;
}

}  // namespace

crossdock_status crossdock_client_get_tensor(crossdock_client* client, crossdock_string name,
                                             const crossdock_tensor_options* options, DLManagedTensorVersioned** tensor,
                                             crossdock_error** error) {
  return guarded(__func__, error, [&] {
    DLManagedTensorVersioned*& out = result(tensor, "tensor");
    need(client, "client");
    const auto got = client->client.tensor(text_of(name, "name"), tensor_options(options), client->interrupted);
    out = crossdock::exchange::export_dlpack(got);
  });
}

crossdock_status crossdock_client_get_tensor_into(crossdock_client* client, crossdock_string name,
                                                  const crossdock_tensor_options* options, const DLTensor* into,
                                                  crossdock_error** error) {
  return guarded(__func__, error, [&] {
    need(client, "client");
    const crossdock::array::Tensor memory = crossdock::exchange::view_dlpack(need(into, "into"), 0);
    session::TensorOptions all = tensor_options(options);
    if (all.device) throw crossdock::InvalidArgumentError("device_type must be 0: the tensor goes to where `into` is");
    all.out = &memory;
    client->client.tensor(text_of(name, "name"), all, client->interrupted);
  });
}

crossdock_status crossdock_client_get_tensors(crossdock_client* client, crossdock_string name,
                                              const crossdock_tensor_options* options, crossdock_tensors** tensors,
                                              crossdock_error** error) {
  return guarded(__func__, error, [&] {
    crossdock_tensors*& out = result(tensors, "tensors");
    need(client, "client");
    auto got = client->client.tensors(text_of(name, "name"), tensor_options(options), client->interrupted);
    auto made = std::make_unique<crossdock_tensors>();
    made->all.reserve(got.size());
    for (session::NamedTensor& one : got) made->all.push_back({std::move(one.path), std::move(one.tensor)});
    out = made.release();
  });
}

void crossdock_tensors_release(crossdock_tensors** tensors) { release(tensors); }

size_t crossdock_tensors_size(const crossdock_tensors* tensors) { return tensors != nullptr ? tensors->all.size() : 0; }

size_t crossdock_tensors_n_keys(const crossdock_tensors* tensors, size_t index) {
  return index < crossdock_tensors_size(tensors) ? tensors->all[index].path.size() : 0;
}

crossdock_string crossdock_tensors_key(const crossdock_tensors* tensors, size_t index, size_t key) {
  if (key >= crossdock_tensors_n_keys(tensors, index)) return {nullptr, 0};
  const std::string& text = tensors->all[index].path[key];
  return {text.data(), text.size()};
}

crossdock_status crossdock_tensors_take(crossdock_tensors* tensors, size_t index, DLManagedTensorVersioned** tensor,
                                        crossdock_error** error) {
  return guarded(__func__, error, [&] {
    DLManagedTensorVersioned*& out = result(tensor, "tensor");
    auto& all = need(tensors, "tensors").all;
    if (index >= all.size()) {
      throw crossdock::InvalidArgumentError("there is no tensor " + std::to_string(index) + "; there are " +
                                            std::to_string(all.size()));
    }
    auto& from = all[index].tensor;
    if (!from) throw crossdock::ConsumedError("tensor " + std::to_string(index) + " was taken before");
    out = crossdock::exchange::export_dlpack(*from);
    from.reset();
  });
}
