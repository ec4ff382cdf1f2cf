#include "crossdock/exchange/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crossdock/core/error.h"
#include "crossdock/device/registry.h"
#include "crossdock/exchange/sync.h"
#include "support.h"
#include "support/message_of.h"
#include "unit/array/made_array.h"
#include "unit/device/sim/support.h"

namespace crossdock::exchange {
namespace {

using array::Field;
using array::RecordBatch;
using array::Schema;
using array::TypeId;
using array::test::field;
using crossdock::testing::message_of;
using device::Buffer;
using device::Device;
using device::kOne;
using device::kZero;
using device::MemoryKind;
using device::Queue;
using device::SimVerb;
using testing::counting_owner;
using ::testing::HasSubstr;

/// Batches between the host and simulated devices. No array is left, and no order was forgotten.
class BatchTest : public device::SimTest {
 protected:
  void TearDown() override {
    quiet();
    EXPECT_THAT(driver_->faults(), ::testing::IsEmpty());
    EXPECT_EQ(driver_->counters().live_allocations, 0u);
    EXPECT_EQ(array::test::live_arrays(), 0);
  }

  /// Everything is freed: the end of a queue's work may put frees on it.
  void quiet() {
    finish(queue_);
    finish(queue_);
  }
  static RecordBatch imported(const std::vector<Field>& fields, ArrowArray array) {
    ArrowDeviceArray on_host = array::test::on_host(array);
    return array::import_batch(std::make_shared<const Schema>(fields), &on_host);
  }
  static RecordBatch made(const std::vector<Field>& fields, std::int64_t rows, std::int64_t offset = 0) {
    return imported(fields, array::test::make_struct(fields, rows, offset, true));
  }
  RecordBatch to_device(const RecordBatch& batch) {
    return copy(batch, {context_, MemoryKind::kDevice, context_, queue_});
  }
  RecordBatch to_host(const RecordBatch& batch) {
    RecordBatch result = copy(batch, {host_, MemoryKind::kHost, context_, queue_});
    wait_ready(&result, *context_);
    return result;
  }
  /// What we make of an array of another library's: one that doesn't say how large its buffers are.
  static RecordBatch handed_over(RecordBatch batch) {
    const auto schema = batch.schema;
    ArrowDeviceArray exported;
    array::export_batch(std::move(batch), &exported);
    disown(&exported.array);
    return array::import_batch(schema, &exported);
  }
  /// Puts a release callback of another library's over that of each array of the tree.
  static void disown(ArrowArray* array) {
    for (std::int64_t i = 0; i < array->n_children; ++i) disown(array->children[i]);
    if (array->dictionary != nullptr) disown(array->dictionary);
    array->private_data = new ArrowArray(*array);
    array->release = [](ArrowArray* self) {
      auto* const original = static_cast<ArrowArray*>(self->private_data);
      original->release(original);
      delete original;
      self->release = nullptr;
    };
  }
  static std::string text_of(RecordBatch batch) {
    const std::vector<Field> fields = batch.schema->fields();
    const std::int64_t rows = batch.num_rows;
    ArrowDeviceArray exported;
    array::export_batch(std::move(batch), &exported);
    std::string text = array::test::rows_text(fields, exported.array, 0, rows);
    array::test::release(&exported);
    return text;
  }

  std::shared_ptr<device::Context> host_ = device::make_default_registry()->context(Device{});
};

TEST_F(BatchTest, EveryTypeComesBackFromADevice) {
  for (const Field& of : array::test::every_type()) {
    for (const std::int64_t offset : {0, 3}) {
      SCOPED_TRACE(type_name(of.type) + " from element " + std::to_string(offset));
      const RecordBatch batch = made({of}, 21, offset);
      const RecordBatch on_device = to_device(batch);
      EXPECT_EQ(on_device.device, kZero);
      EXPECT_TRUE(on_device.sizes_known());
      EXPECT_EQ(text_of(to_host(on_device)), text_of(batch));
      EXPECT_EQ(text_of(to_host(handed_over(on_device))), text_of(batch)) << "with sizes that nobody said";
    }
  }
}

TEST_F(BatchTest, SlicesOfEveryTypeComeBackFromADevice) {
  for (const Field& of : array::test::every_type()) {
    for (const auto& [start, length] : {std::pair{0, 5}, {3, 11}, {9, 1}, {13, 0}, {8, 12}}) {
      SCOPED_TRACE(type_name(of.type) + " rows " + std::to_string(start) + " + " + std::to_string(length));
      const auto sliced = [&, start = start, length = length] {
        ArrowArray array = array::test::make_struct({of}, 21, 2, true);
        array.offset = start;
        array.length = length;
        return array;
      };
      const RecordBatch batch = imported({of}, sliced());
      EXPECT_EQ(text_of(to_host(to_device(batch))), text_of(batch)) << "cut on the host";

      // The slice of a device's batch, which nobody can look into.
      const RecordBatch whole = to_device(imported({of}, array::test::make_struct({of}, 21, 2, true)));
      ArrowDeviceArray exported;
      array::export_batch(whole, &exported);
      exported.array.offset = start;
      exported.array.length = length;
      const RecordBatch on_device = array::import_batch(whole.schema, &exported);
      EXPECT_EQ(text_of(to_host(on_device)), text_of(batch)) << "cut on the device";
    }
  }
}

TEST_F(BatchTest, DeviceToDeviceAndBackAgain) {
  const std::shared_ptr<device::Context> other = driver_->open(kOne);
  const device::Queue queue = other->make_queue();
  const std::vector<Field> fields = array::test::every_type();
  const RecordBatch batch = made(fields, 13);
  RecordBatch first = to_device(batch);
  RecordBatch imported = handed_over(std::move(first));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                copy(imported, {other, MemoryKind::kDevice, other, queue});
              }),
              HasSubstr("resolve_sizes()"))
      << "the other device can't look";
  resolve_sizes(&imported, context_, queue_);
  RecordBatch second = copy(imported, {other, MemoryKind::kDevice, other, queue});
  // The memory is freed on its own queue, which must come after what the other device reads.
  context_->order_after(queue_, second.event);
  imported = {};
  EXPECT_EQ(second.device, kOne);
  EXPECT_EQ(second.queue->device(), kOne);
  RecordBatch third = copy(second, {host_, MemoryKind::kHost, other, queue});
  wait_ready(&third, *other);
  EXPECT_EQ(text_of(std::move(third)), text_of(batch));
  second = {};
  device::Event done = other->record(queue);
  other->wait(done);
}

TEST_F(BatchTest, HostToHostIsOneAllocationThatOwnsItself) {
  int released = 0;
  RecordBatch batch = made({field("u", TypeId::kUtf8)}, 9);
  const std::string expected = text_of(batch);
  batch.owner = std::shared_ptr<const void>(&released, [keep = batch.owner, &released](const void*) { ++released; });
  RecordBatch result = copy(batch, {host_, MemoryKind::kHost, host_, host_->make_queue()});
  batch = {};
  EXPECT_EQ(released, 1);
  EXPECT_EQ(text_of(std::move(result)), expected);
}

TEST_F(BatchTest, CallsDependOnTheBuffersAlone) {
  const std::vector<Field> fields = {field("a", TypeId::kInt64), field("b", TypeId::kUtf8),
                                     field("v", TypeId::kUtf8View),
                                     field("l", TypeId::kList, {field("", TypeId::kBool)})};
  const auto calls = [&](std::int64_t rows) {
    const RecordBatch batch = made(fields, rows);
    quiet();
    driver_->reset();
    const RecordBatch on_device = to_device(batch);
    const device::SimCounters up = driver_->counters();
    EXPECT_EQ(up.of(SimVerb::kAllocate), 1u);
    EXPECT_EQ(up.of(SimVerb::kWait), 0u);
    const RecordBatch imported = handed_over(on_device);
    quiet();
    driver_->reset();
    RecordBatch result = copy(imported, {host_, MemoryKind::kHost, context_, queue_});
    const device::SimCounters down = driver_->counters();
    EXPECT_EQ(down.of(SimVerb::kWait), 1u) << "for all sizes at once";
    wait_ready(&result, *context_);
    return std::pair{up.total(), down.total()};
  };
  EXPECT_EQ(calls(700), calls(70));
  // One copy for all that is small, whatever the number of columns.
  std::vector<Field> many;
  for (int i = 0; i < 100; ++i) many.push_back(field("c" + std::to_string(i), TypeId::kInt32));
  const RecordBatch wide = made(many, 10);
  driver_->reset();
  to_device(wide);
  EXPECT_EQ(driver_->counters().of(SimVerb::kCopy), 1u);
}

TEST_F(BatchTest, LargeBuffersAreCopiedFromWhereTheyAre) {
  const std::int64_t rows = kGathered / 8;
  const std::vector<Field> fields = {field("a", TypeId::kInt64), field("b", TypeId::kInt64)};
  const RecordBatch batch = made(fields, rows);
  driver_->reset();
  const RecordBatch on_device = to_device(batch);
  EXPECT_EQ(driver_->counters().of(SimVerb::kCopy), 3u) << "validity of both, and the values of each";
  for (const array::BufferView& buffer : on_device.buffers) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data) % 64, 0u);
  }
  EXPECT_EQ(text_of(to_host(on_device)), text_of(batch));
}

TEST_F(BatchTest, ASliceIsCut) {
  const std::vector<Field> fields = {field("a", TypeId::kInt64), field("u", TypeId::kUtf8),
                                     array::test::fixed_size_list("f", 4, field("", TypeId::kInt32))};
  const RecordBatch whole = to_device(made(fields, 1000));
  ArrowDeviceArray exported;
  array::export_batch(whole, &exported);
  exported.array.offset = 500;
  exported.array.length = 10;
  const RecordBatch slice = array::import_batch(whole.schema, &exported);
  driver_->reset();
  const RecordBatch cut = to_device(slice);
  EXPECT_LE(cut.nodes[0].offset, 7);
  EXPECT_LE(cut.buffers[1].size, (7 + 10) * 8);
  EXPECT_LE(cut.buffers[7].size, (7 + 7 + 10 * 4) * 8 * 4) << "the child of fixed-size lists";
  EXPECT_LE(driver_->counters().bytes_copied, 2000u + static_cast<std::uint64_t>(cut.buffers[4].size));
}

TEST_F(BatchTest, AsynchronousOnItsQueue) {
  const RecordBatch batch = made({field("a", TypeId::kInt64)}, 3);
  slow(std::chrono::milliseconds(30));
  const RecordBatch on_device = to_device(batch);
  EXPECT_FALSE(context_->query(on_device.event));
  EXPECT_EQ(on_device.queue->native(), queue_.native());
  // Another queue comes after it by way of the event alone.
  RecordBatch back = copy(handed_over(on_device), {host_, MemoryKind::kHost, context_, other_});
  EXPECT_FALSE(back.host_readable());
  EXPECT_THROW(handed_over(back), InvalidArgumentError) << "the CPU has no events";
  wait_ready(&back, *context_);
  EXPECT_TRUE(back.host_readable());
  EXPECT_EQ(text_of(back), text_of(batch));
  finish(other_);
}

TEST_F(BatchTest, SourcesAreKeptUntilTheCopiesAreDone) {
  int released = 0;
  slow(std::chrono::milliseconds(50));
  RecordBatch batch = made({field("a", TypeId::kInt64)}, kGathered);
  batch.owner = std::shared_ptr<const void>(&released, [keep = batch.owner, &released](const void*) { ++released; });
  RecordBatch on_device = to_device(batch);
  batch = {};
  EXPECT_EQ(released, 0);
  RecordBatch back = copy(on_device, {host_, MemoryKind::kHost, context_, queue_});
  on_device = {};
  wait_ready(&back, *context_);
  finish(queue_);
  EXPECT_EQ(released, 1);
}

TEST_F(BatchTest, ASmallSourceIsGivenBackAtOnce) {
  int released = 0;
  slow(std::chrono::milliseconds(20));
  RecordBatch batch = made({field("a", TypeId::kInt64)}, 4);
  batch.owner = std::shared_ptr<const void>(&released, [keep = batch.owner, &released](const void*) { ++released; });
  const RecordBatch on_device = to_device(batch);
  batch = {};
  EXPECT_EQ(released, 1) << "its bytes were gathered";
}

TEST_F(BatchTest, ADictionaryOfSeveralColumnsIsCopiedOnce) {
  const std::vector<Field> fields = {array::test::dictionary_of("d", TypeId::kInt8, field("", TypeId::kUtf8)),
                                     array::test::dictionary_of("e", TypeId::kInt8, field("", TypeId::kUtf8))};
  RecordBatch batch = made(fields, 5);
  batch.dictionaries[1] = batch.dictionaries[0];
  const RecordBatch on_device = to_device(batch);
  EXPECT_EQ(on_device.dictionaries[0], on_device.dictionaries[1]);
  // By the C interface each column has its own, of the same memory.
  const RecordBatch imported = handed_over(on_device);
  EXPECT_NE(imported.dictionaries[0], imported.dictionaries[1]);
  const RecordBatch back = to_host(imported);
  EXPECT_EQ(back.dictionaries[0], back.dictionaries[1]);
  EXPECT_EQ(text_of(back), text_of(batch));
}

TEST_F(BatchTest, AFailureOfTheProducersWorkReachesTheConsumer) {
  const RecordBatch batch = made({field("a", TypeId::kInt64), field("u", TypeId::kUtf8)}, 3);
  driver_->fail_work(0, SystemError("the copy engine burnt"));
  slow(std::chrono::milliseconds(10));
  const RecordBatch on_device = to_device(batch);
  const RecordBatch imported = handed_over(on_device);
  EXPECT_THAT(message_of<SystemError>([&] { to_host(imported); }), HasSubstr("burnt"));
  RecordBatch waited = on_device;
  EXPECT_THAT(message_of<SystemError>([&] { wait_ready(&waited, *context_); }), HasSubstr("burnt"));
  EXPECT_THAT(message_of<SystemError>([&] { wait_ready(&waited, *context_); }), HasSubstr("burnt")) << "it stays";
  EXPECT_THAT(message_of<SystemError>([&] { handed_over(on_device); }), HasSubstr("burnt"));
}

TEST_F(BatchTest, WhatFailsHalfWayLeavesNothing) {
  const RecordBatch batch = made({field("a", TypeId::kInt64), field("v", TypeId::kUtf8View)}, 2 * kGathered);
  for (const SimVerb verb : {SimVerb::kAllocate, SimVerb::kCopy, SimVerb::kRecord}) {
    for (const std::uint64_t after : {0, 1}) {
      if (after > 0 && verb != SimVerb::kCopy) continue;
      driver_->fail_next(verb, after, ResourceError("arranged"));
      EXPECT_THROW(to_device(batch), ResourceError);
      quiet();
      EXPECT_EQ(driver_->counters().live_allocations, 0u);
    }
  }
}

TEST_F(BatchTest, OtherMemoryThanTheColumnsIsntForgottenWithThem) {
  constexpr std::size_t kPart = 64 << 10;
  std::string body(3 * kPart, 'b');  // a column, somebody else's memory, a column
  const Buffer there = ready(kPart);
  const auto others = [&] { return host(body).slice(kPart, kPart); };
  upload(there.ref(), std::string(kPart, 'o'));
  slow(std::chrono::milliseconds(2));
  context_->copy(others(), there.ref(), other_);
  context_->order_after(queue_, recorded(other_));
  std::atomic<bool> released{false};
  RecordBatch batch;
  batch.num_rows = kPart / 8;
  batch.nodes = {{batch.num_rows, 0, 0}, {batch.num_rows, 0, 0}};
  batch.buffers = {{}, {body.data(), kPart}, {}, {body.data() + 2 * kPart, kPart}};
  batch.schema =
      std::make_shared<const Schema>(std::vector<Field>{field("a", TypeId::kInt64), field("b", TypeId::kInt64)});
  batch.owner = std::shared_ptr<const void>(&released, [&](const void*) { released = true; });
  const RecordBatch on_device = to_device(batch);
  batch = RecordBatch();
  while (!released) {
  }
  const Queue third = context_->make_queue();
  context_->copy(there.ref(), others().as_read_only(), third);
  EXPECT_THAT(failure_of(third), HasSubstr("queue 2 of ext_dev:0 writes"));
  driver_->forget_faults();
  finish(other_);
}

TEST_F(BatchTest, SizesAreReadOnce) {
  RecordBatch imported = handed_over(to_device(made({field("u", TypeId::kUtf8), field("v", TypeId::kBinaryView)}, 7)));
  EXPECT_FALSE(imported.sizes_known());
  driver_->reset();
  resolve_sizes(&imported, context_, queue_);
  EXPECT_TRUE(imported.sizes_known());
  EXPECT_EQ(driver_->counters().of(SimVerb::kCopy), 2u);
  EXPECT_EQ(driver_->counters().of(SimVerb::kWait), 1u);
  driver_->reset();
  resolve_sizes(&imported, context_, queue_);
  EXPECT_EQ(driver_->counters().total(), 0u);
}

TEST_F(BatchTest, SizesThatCannotBeReadLeaveNoMemoryUnderWork) {
  for (const SimVerb verb : {SimVerb::kCopy, SimVerb::kRecord, SimVerb::kOrderAfter}) {
    bool failed = true;
    for (std::uint64_t after = 0; failed; ++after) {
      RecordBatch imported =
          handed_over(to_device(made({field("u", TypeId::kUtf8), field("v", TypeId::kBinaryView)}, 7)));
      slow(std::chrono::milliseconds(2));
      driver_->fail_next(verb, after, ResourceError("arranged"));
      failed = false;
      try {
        resolve_sizes(&imported, context_, other_);
      } catch (const ResourceError&) {
        failed = true;
      }
      imported = {};  // frees its memory on another queue
      slow({});
      driver_->reset();
      finish(other_);
      quiet();
      EXPECT_THAT(driver_->faults(), ::testing::IsEmpty()) << device::sim_verb_name(verb) << ' ' << after;
    }
  }
}

TEST_F(BatchTest, WrongOffsetsOfADeviceAreFoundOnTheHost) {
  RecordBatch batch = made({field("l", TypeId::kList, {field("", TypeId::kInt8)})}, 4);
  RecordBatch on_device = to_device(batch);
  // A child that is shorter than the offsets say.
  on_device.nodes[1] = {0, 0, 0};
  on_device.buffers[2] = {};
  on_device.buffers[3] = {};
  EXPECT_THAT(message_of<InvalidDataError>([&] { to_host(on_device); }), HasSubstr("its parent needs"));
}

TEST_F(BatchTest, NothingToCopyIsNoCall) {
  const RecordBatch batch = made({field("a", TypeId::kInt64), field("n", TypeId::kNull)}, 0);
  driver_->reset();
  const RecordBatch on_device = to_device(batch);
  EXPECT_EQ(driver_->counters().total(), 0u);
  EXPECT_EQ(on_device.device, kZero);
  EXPECT_TRUE(on_device.ready());
}

TEST_F(BatchTest, HandlesAreNotCopied) {
  RecordBatch batch = made({field("a", TypeId::kInt64)}, 1);
  batch.device = {.type = device::DeviceType::kMetal, .id = 0};
  EXPECT_THROW(to_host(batch), UnsupportedError);
}

}  // namespace
}  // namespace crossdock::exchange
