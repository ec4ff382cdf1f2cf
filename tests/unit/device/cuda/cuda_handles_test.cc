#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "crossdock/core/error.h"
#include "device/cuda.h"
#include "device/memory_handle.h"
#include "support/cuda_target_test.h"
#include "support/message_of.h"
#include "support/process.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::ChildProcess;
using crossdock::testing::Cuda;
using crossdock::testing::message_of;
using ::testing::HasSubstr;

/// A device, opened, in whichever process.
struct Opened {
  explicit Opened(const std::string& target) {
    std::string why_not;
    driver = crossdock::testing::make_cuda_target(target, why_not);
    if (driver == nullptr) throw NotFoundError(why_not);
    context = driver->open(driver->devices().front());
    queue = std::make_unique<Queue>(context->make_queue());
  }
  void finish() const {
    Event event = context->record(*queue);
    context->wait(event);
  }
  void upload(const BufferRef& to, std::string bytes) const {
    context->copy(to, {.data = bytes.data(), .size = bytes.size(), .device = {}, .kind = {}, .read_only = true},
                  *queue);
    finish();
  }
  std::string download(const BufferRef& from) const {
    std::string bytes(from.size, '?');
    context->copy({.data = bytes.data(), .size = bytes.size(), .device = {}, .kind = {}, .read_only = false}, from,
                  *queue);
    finish();
    return bytes;
  }

  std::shared_ptr<Driver> driver;
  std::shared_ptr<Context> context;
  std::unique_ptr<Queue> queue;
};

// A handle as text, as it would go over a socket.

std::string to_text(const MemoryHandle& handle) {
  std::string text = handle.driver + " " + std::to_string(handle.offset) + " " + std::to_string(handle.size) + " ";
  for (const std::byte byte : handle.opaque) {
    const auto value = static_cast<unsigned>(byte);
    text += static_cast<char>('a' + value / 16);
    text += static_cast<char>('a' + value % 16);
  }
  return text;
}

MemoryHandle from_text(const std::string& text) {
  MemoryHandle handle;
  const std::size_t first = text.find(' ');
  const std::size_t second = text.find(' ', first + 1);
  const std::size_t third = text.find(' ', second + 1);
  handle.driver = text.substr(0, first);
  handle.offset = std::stoull(text.substr(first + 1));
  handle.size = std::stoull(text.substr(second + 1));
  for (std::size_t i = third + 1; i + 1 < text.size(); i += 2) {
    handle.opaque.push_back(static_cast<std::byte>((text[i] - 'a') * 16 + (text[i + 1] - 'a')));
  }
  return handle;
}

/// Two processes, each of which starts CUDA for itself: the test's own must not have before the other is forked.
class CudaHandles : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "Fake") {
      // A library of its own, which no other test in this process has started.
      library_ = folder_.path_of("libcuda_fake.so");
      std::filesystem::copy_file(CROSSDOCK_CUDA_FAKE, library_);
      return;
    }
    // Whether there is a GPU is asked in a child, too.
    std::string why_not;
    const int status = crossdock::testing::run_in_child([&] {
      if (crossdock::testing::make_cuda_target("Gpu", why_not) == nullptr) ::_exit(1);
    });
    if (status != 0) GTEST_SKIP() << "no GPU";
  }
  std::string target() const { return library_.empty() ? GetParam() : library_; }

  crossdock::testing::ScopedFolder folder_;
  std::string library_;
};

CROSSDOCK_ON_CUDA(CudaHandles);

TEST_P(CudaHandles, CarryMemoryToAnotherProcess) {
  ChildProcess exporter([&](const ChildProcess::Line& line) {
    const Opened cuda(target());
    const Buffer buffer = cuda.context->allocate(10'000, MemoryKind::kDevice, Sharing::kExportable, *cuda.queue);
    cuda.upload(buffer.ref(), std::string(10'000, '.'));
    cuda.upload(buffer.ref().slice(4000, 5), "there");
    line.say(to_text(cuda.context->export_memory(buffer.ref().slice(4000, 5))));
    line.say(to_text(cuda.context->export_memory(buffer.ref())));
    if (line.hear() != "written") return 1;
    line.say(cuda.download(buffer.ref().slice(4000, 5)));
    return line.hear() == "done" ? 0 : 1;
  });
  const std::string part = exporter.line().hear();
  const std::string whole = exporter.line().hear();
  const Opened cuda(target());
  {
    const Buffer imported = cuda.context->import_memory(from_text(part), "the exporter");
    EXPECT_EQ(imported.size(), 5u);
    EXPECT_FALSE(imported.read_only());
    EXPECT_EQ(imported.device(), cuda.context->device());
    EXPECT_EQ(cuda.download(imported.ref()), "there");
    // The same memory twice: CUDA counts.
    Buffer again = cuda.context->import_memory(from_text(whole), "the exporter");
    EXPECT_EQ(cuda.download(again.ref().slice(3999, 7)), ".there.");
    again = Buffer();
    cuda.upload(imported.ref(), "to me");
    exporter.line().say("written");
    EXPECT_EQ(exporter.line().hear(), "to me");

    MemoryHandle longer = from_text(whole);
    longer.size = std::uint64_t{1} << 40;
    for (std::size_t i = 0; i < 8; ++i) longer.opaque[64 + i] = std::byte{0};
    longer.opaque[64 + 5] = std::byte{1};  // the exporter's word for the size, and a lie
    EXPECT_THAT(message_of<ProtocolError>([&] { cuda.context->import_memory(std::move(longer), "a liar"); }),
                HasSubstr("a liar: a memory handle names 1099511627776 bytes at 0 of memory that has "));
  }
  exporter.line().say("done");
  EXPECT_EQ(exporter.wait(), 0);
  EXPECT_THROW(cuda.context->import_memory(from_text(whole), "a process that has gone"), Error);
  if (GetParam() == "Fake") {
    EXPECT_EQ(Cuda(target()).live().allocations, 0u);
  }
}

TEST_P(CudaHandles, ThatCudaDoesntKnowAreRefused) {
  const Opened cuda(target());
  const Buffer buffer = cuda.context->allocate(64, MemoryKind::kDevice, Sharing::kExportable, *cuda.queue);
  MemoryHandle handle = cuda.context->export_memory(buffer.ref());
  for (std::size_t i = 0; i < 64; ++i) handle.opaque[i] = std::byte{0x5A};  // no handle of CUDA's
  handle.opaque.back() ^= std::byte{1};                                     // of another process
  EXPECT_THAT(message_of<ProtocolError>([&] { cuda.context->import_memory(std::move(handle), "handle 7"); }),
              HasSubstr("handle 7: CUDA doesn't know the memory"));
}

TEST(CudaHandlesOfTheDouble, AreWholeBlocks) {
  const Opened cuda("Fake");
  const Buffer buffer = cuda.context->allocate(64, MemoryKind::kDevice, Sharing::kExportable, *cuda.queue);
  EXPECT_EQ(buffer.size(), 64u);
  EXPECT_EQ(cuda.context->describe(buffer.data()).size, std::uint64_t{2} << 20);
}

}  // namespace
}  // namespace crossdock::device
