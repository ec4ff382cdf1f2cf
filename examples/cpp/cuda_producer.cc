/// A producer of Arrow device arrays in a GPU's memory: one int32 array, and a stream of them, each with an event that
/// says when its data may be used. It knows the Arrow C Device data interface and CUDA's driver, and nothing of
/// Crossdock, which takes both at the end of this file, orders a queue of its own after the events, and copies the
/// numbers to the host.
///
/// CUDA's driver library is opened when the program runs: the one that CROSSDOCK_CUDA_LIBRARY names, else NVIDIA's.

#include <dlfcn.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "crossdock/array/c_abi.h"
#include "crossdock/array/stream.h"
#include "crossdock/device/registry.h"

// ---- CUDA's driver, as far as it is needed
namespace cuda {

using Context = void*;
using Stream = void*;
using Event = void*;
using Pointer = std::uint64_t;

/// Throws the loader's words if it isn't there.
void* library() {
  static void* const opened = [] {
    const char* const named = std::getenv("CROSSDOCK_CUDA_LIBRARY");
    void* const handle = ::dlopen(named != nullptr ? named : "libcuda.so.1", RTLD_NOW);
    if (handle == nullptr) throw std::runtime_error(std::string("CUDA's driver library: ") + ::dlerror());
    return handle;
  }();
  return opened;
}

/// Calls a function of the library; throws if it doesn't succeed.
template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  void* const function = ::dlsym(library(), name);
  if (function == nullptr) throw std::runtime_error(std::string("CUDA has no ") + name);
  const int result = reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
  if (result != 0) throw std::runtime_error(std::string(name) + " gave " + std::to_string(result));
}

}  // namespace cuda

// ---- The producer
namespace producer {

constexpr int kDevice = 0;

/// What an exported array owns. It goes when the consumer releases the array.
struct Exported {
  cuda::Event event = nullptr;  // sync_event points here: a cudaEvent_t*
  cuda::Pointer values = 0;
  const void* buffers[2] = {nullptr, nullptr};

  Exported() = default;
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;
  ~Exported() {
    try {
      if (event != nullptr) cuda::call("cuEventDestroy_v2", event);
      if (values != 0) cuda::call("cuMemFree_v2", values);
    } catch (const std::exception&) {
      // Nobody can be told any more.
    }
  }
};

void release_array(ArrowArray* array) {
  delete static_cast<Exported*>(array->private_data);
  array->release = nullptr;
}

/// Sends `numbers` to the device on `stream`, and exports the array without waiting for that: its event is recorded
/// after the work. `numbers` must stay as they are until then.
void export_int32(const std::vector<std::int32_t>& numbers, cuda::Stream stream, ArrowDeviceArray* out) {
  auto exported = std::make_unique<Exported>();
  const std::size_t bytes = numbers.size() * sizeof(std::int32_t);
  cuda::call("cuMemAlloc_v2", &exported->values, bytes);
  constexpr unsigned kDisableTiming = 2;
  cuda::call("cuEventCreate", &exported->event, kDisableTiming);
  cuda::call("cuMemcpyHtoDAsync_v2", exported->values, static_cast<const void*>(numbers.data()), bytes, stream);
  cuda::call("cuEventRecord", exported->event, stream);
  // There are no nulls, so the first buffer, of validity, is absent.
  std::memcpy(&exported->buffers[1], &exported->values, sizeof exported->values);

  *out = ArrowDeviceArray{};  // the reserved bytes are zero
  out->array.length = static_cast<std::int64_t>(numbers.size());
  out->array.n_buffers = 2;
  out->array.buffers = exported->buffers;
  out->array.release = &release_array;
  out->device_id = kDevice;
  out->device_type = ARROW_DEVICE_CUDA;
  out->sync_event = &exported->event;
  out->array.private_data = exported.release();
}

void release_schema(ArrowSchema* schema) { schema->release = nullptr; }

/// A schema that owns nothing: its texts are constants.
void export_int32_schema(ArrowSchema* out) {
  *out = ArrowSchema{};
  out->format = "i";
  out->name = "";
  out->release = &release_schema;
}

/// A stream of arrays, made one by one as the consumer asks for them. All have its type of device.
struct Numbers {
  std::vector<std::vector<std::int32_t>> chunks;
  std::size_t next = 0;
  cuda::Stream stream = nullptr;
  std::string error;
};

/// What a callback gives to C: 0, or an errno and a text for get_last_error().
template <class Work>
int guarded(ArrowDeviceArrayStream* self, Work work) noexcept {
  auto& numbers = *static_cast<Numbers*>(self->private_data);
  try {
    work(numbers);
    return 0;
  } catch (const std::exception& error) {
    numbers.error = error.what();
    return EIO;
  }
}

void export_stream(std::unique_ptr<Numbers> numbers, ArrowDeviceArrayStream* out) {
  *out = ArrowDeviceArrayStream{};
  out->device_type = ARROW_DEVICE_CUDA;
  out->get_schema = [](ArrowDeviceArrayStream* self, ArrowSchema* schema) {
    return guarded(self, [&](Numbers&) { export_int32_schema(schema); });
  };
  out->get_next = [](ArrowDeviceArrayStream* self, ArrowDeviceArray* array) {
    return guarded(self, [&](Numbers& of) {
      *array = ArrowDeviceArray{};  // released: the end
      if (of.next < of.chunks.size()) export_int32(of.chunks[of.next++], of.stream, array);
    });
  };
  out->get_last_error = [](ArrowDeviceArrayStream* self) {
    const std::string& error = static_cast<Numbers*>(self->private_data)->error;
    return error.empty() ? nullptr : error.c_str();
  };
  out->release = [](ArrowDeviceArrayStream* self) {
    delete static_cast<Numbers*>(self->private_data);
    self->release = nullptr;
  };
  out->private_data = numbers.release();
}

}  // namespace producer

// ---- The consumer
namespace {

namespace xd = crossdock;

/// The numbers of a batch of one int32 column, on the host.
std::vector<std::int32_t> fetch(const xd::array::RecordBatch& batch, xd::device::Context& context,
                                const xd::device::Queue& queue) {
  // Our queue goes on when the producer's work is done; this thread doesn't wait for it.
  context.order_after(queue, batch.event);
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(batch.num_rows));
  const std::uint64_t bytes = numbers.size() * sizeof(std::int32_t);
  context.copy({.data = numbers.data(), .size = bytes, .device = {}, .kind = {}, .read_only = false},
               {.data = const_cast<void*>(batch.buffers[1].data),
                .size = bytes,
                .device = context.device(),
                .kind = xd::device::MemoryKind::kDevice,
                .read_only = true},
               queue);
  xd::device::Event copied = context.record(queue);
  context.wait(copied);
  return numbers;
}

void run() {
  // The producer's side of CUDA: a context, and a stream on which it works.
  cuda::Context primary = nullptr;
  cuda::Stream stream = nullptr;
  constexpr unsigned kNonBlocking = 1;
  cuda::call("cuInit", 0U);
  cuda::call("cuDevicePrimaryCtxRetain", &primary, producer::kDevice);
  cuda::call("cuCtxPushCurrent_v2", primary);
  cuda::call("cuStreamCreate", &stream, kNonBlocking);

  {
    const auto drivers = xd::device::make_default_registry();
    const auto context = drivers->context({xd::device::DeviceType::kCuda, producer::kDevice});
    const xd::device::Queue queue = context->make_queue();

    std::vector<std::int32_t> numbers(1000);
    std::iota(numbers.begin(), numbers.end(), 0);
    ArrowSchema schema{};
    ArrowDeviceArray array{};
    producer::export_int32_schema(&schema);
    producer::export_int32(numbers, stream, &array);
    const auto type = std::make_shared<const xd::array::Schema>(
        std::vector<xd::array::Field>{xd::array::import_schema(schema)->fields().front()});
    schema.release(&schema);
    {
      const xd::array::RecordBatch batch = xd::array::import_batch(type, &array);
      std::cout << "array: " << batch.num_rows << " rows, " << (fetch(batch, *context, queue) == numbers) << '\n';
    }  // the array is released here, and its event and memory with it

    auto chunks = std::make_unique<producer::Numbers>();
    chunks->stream = stream;
    chunks->chunks = {{1, 2, 3}, {4, 5}, {6, 7, 8, 9}};
    ArrowDeviceArrayStream exported{};
    producer::export_stream(std::move(chunks), &exported);
    const auto taken = xd::array::import_device_stream(&exported);
    while (const auto batch = taken->next()) {
      std::cout << "chunk:";
      for (const std::int32_t number : fetch(*batch, *context, queue)) std::cout << ' ' << number;
      std::cout << '\n';
    }
  }
  cuda::call("cuStreamDestroy_v2", stream);
  cuda::call("cuDevicePrimaryCtxRelease_v2", producer::kDevice);
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
