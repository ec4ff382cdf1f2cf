// What is the host driver's own; what it shares with every driver is in tests/conformance/driver.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include "crossdock/core/error.h"
#include "crossdock/device/registry.h"
#include "device/memory_handle.h"
#include "support/message_of.h"
#include "unit/device/support.h"

namespace crossdock::device {
namespace {

using crossdock::testing::message_of;
using crossdock::testing::run_in_child;
using ::testing::HasSubstr;

class HostContextTest : public ::testing::Test {
 protected:
  std::shared_ptr<Driver> driver_ = make_default_registry()->find("host");
  std::shared_ptr<Context> context_ = driver_->open({});
  Queue queue_ = context_->make_queue();

  Buffer exportable(std::uint64_t size) {
    return context_->allocate(size, MemoryKind::kHost, Sharing::kExportable, queue_);
  }
};

TEST_F(HostContextTest, OpensEveryCpuIdAndNoNativeContext) {
  EXPECT_NO_THROW(driver_->open({.type = DeviceType::kCpu, .id = 7}));
  int context = 0;
  EXPECT_THROW(driver_->open({}, NativeContext(&context)), UnsupportedError);
  EXPECT_THROW(driver_->open({.type = DeviceType::kCuda, .id = 0}), NotFoundError);
}

TEST_F(HostContextTest, DescribesAnExportableAllocationWhole) {
  const Buffer buffer = exportable(10'000);
  const PointerInfo info = context_->describe(static_cast<std::byte*>(buffer.data()) + 9'999);
  EXPECT_EQ(info.base, buffer.data());
  EXPECT_EQ(info.size, 10'000u);
  EXPECT_EQ(context_->describe(nullptr).base, nullptr);
}

TEST_F(HostContextTest, ForgetsAnAllocationThatIsGone) {
  Buffer buffer = exportable(4096);
  void* data = buffer.data();
  buffer = Buffer();
  EXPECT_EQ(context_->describe(data).base, nullptr);
}

TEST_F(HostContextTest, ImportedMemoryCantBeWritten) {
  const Buffer buffer = exportable(4096);
  const Buffer imported = context_->import_memory(context_->export_memory(buffer.ref()), "here");
  EXPECT_TRUE(imported.read_only());
  EXPECT_EQ(run_in_child([&] { *static_cast<volatile char*>(imported.data()) = 1; }), -SIGSEGV);
}

TEST_F(HostContextTest, ImportsNoUnsealedDescriptor) {
  MemoryHandle handle = context_->export_memory(exportable(4096).ref());
  handle.descriptor = UniqueFd(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(handle.descriptor.get(), 4096), 0);
  EXPECT_THAT(message_of<ProtocolError>([&] { context_->import_memory(std::move(handle), "here"); }),
              HasSubstr("sealed"));
  MemoryHandle none = context_->export_memory(exportable(4096).ref());
  none.descriptor.reset();
  EXPECT_THAT(message_of<ProtocolError>([&] { context_->import_memory(std::move(none), "here"); }),
              HasSubstr("lacks its descriptor"));
}

TEST_F(HostContextTest, RefusesAnEventOfAnotherDriver) {
  int native = 0;
  const Event foreign(NativeEvent(&native), nullptr);
  EXPECT_THROW(context_->wait(foreign), UnsupportedError);
  EXPECT_THROW(context_->order_after(queue_, foreign), UnsupportedError);
}

TEST_F(HostContextTest, CopiesFromPinnedMemoryToo) {
  std::string from = "pinned";
  std::string to(6, '?');
  const BufferRef pinned{.data = from.data(),
                         .size = 6,
                         .device = {.type = DeviceType::kCudaHost, .id = 0},
                         .kind = MemoryKind::kHost,
                         .read_only = true};
  const BufferRef target{.data = to.data(), .size = 6, .device = {}, .kind = MemoryKind::kHost, .read_only = false};
  context_->copy(target, pinned, queue_);
  EXPECT_EQ(to, "pinned");
}

}  // namespace
}  // namespace crossdock::device
