#include "session/out_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "crossdock/core/error.h"
#include "device/sim.h"
#include "session/device_bodies.h"

namespace crossdock::session {
namespace {

/// A target of 2 by 3 int32, and the message of a tensor that lies as it does.
class OutTensorTest : public ::testing::Test {
 protected:
  OutTensorTest() {
    target_.type = array::parse_element_type("int32");
    target_.extents = array::Extents(2);
    target_.extents.shape()[0] = 2;
    target_.extents.shape()[1] = 3;
    array::set_row_major(&target_, "a target");
    target_.data = memory_.data();
    header_.type.id = array::TypeId::kInt32;
    header_.shape = {2, 3};
    header_.strides = {12, 4};
    header_.data = {0, 24};
    header_.body_length = 24;
  }
  OutTensor out() const { return {target_, transport::make_body_pool(), nullptr}; }
  /// Whether a body of this size is received straight into the target.
  bool straight(std::uint64_t size = 24) const {
    OutTensor out = this->out();
    out.expect(header_, "it");
    return out.allocate(size).get() == target_.data;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(1000);
  array::Tensor target_;
  ipc::TensorHeader header_;
};

TEST_F(OutTensorTest, GetsOneBodyOfItsSize) {
  OutTensor out = this->out();
  EXPECT_NE(out.allocate(24).get(), target_.data) << "before the message is known";
  out.expect(header_, "it");
  EXPECT_NE(out.allocate(25).get(), target_.data);
  EXPECT_EQ(out.allocate(24).get(), target_.data);
  out.expect(header_, "it");
  EXPECT_NE(out.allocate(24).get(), target_.data) << "it was lent";
}

TEST_F(OutTensorTest, GetsNothingThatLiesOtherwise) {
  EXPECT_TRUE(straight());
  header_.strides = {4, 8};
  EXPECT_FALSE(straight()) << "another order";
  target_.extents.strides()[0] = 4;
  target_.extents.strides()[1] = 8;
  EXPECT_TRUE(straight()) << "the same";
  header_.body_length = 64;
  EXPECT_FALSE(straight(64)) << "padded";
  header_.body_length = 24;
  header_.data.offset = 8;
  EXPECT_FALSE(straight()) << "begun later";
}

TEST_F(OutTensorTest, GetsNothingThatIsLongerThanItIs) {
  // Overlapping elements: 24 bytes of them are in 16 bytes of memory.
  target_.extents.strides()[0] = 4;
  target_.extents.strides()[1] = 4;
  header_.strides = {4, 4};
  EXPECT_FALSE(straight());
  header_.data.length = 16;
  EXPECT_FALSE(straight());
}

TEST_F(OutTensorTest, GetsNothingWithGaps) {
  target_.extents.strides()[0] = 100;
  header_.strides = {100, 4};
  header_.data.length = header_.body_length = 112;
  EXPECT_FALSE(straight(112));
  EXPECT_FALSE(straight(24));
}

TEST_F(OutTensorTest, OtherShapesAndTypesAreRefused) {
  const auto refused = [&] { EXPECT_THROW(out().expect(header_, "it"), InvalidArgumentError); };
  header_.shape = {3, 2};
  refused();
  header_.shape = {2, 3};
  header_.type.id = array::TypeId::kUInt32;
  refused();
  header_.type.id = array::TypeId::kInt32;
  header_.custom_metadata = {{"crossdock:dtype", ">i4"}};
  refused();
  header_.custom_metadata = {{"crossdock:dtype", "<i8"}};
  EXPECT_THROW(out().expect(header_, "it"), InvalidDataError);
}

TEST_F(OutTensorTest, OnADeviceABodyThereIsToldByItsOwner) {
  const auto driver = device::make_sim_driver({.devices = 1});
  const auto context = driver->open({.type = device::DeviceType::kExtDev, .id = 0});
  const auto bodies = std::make_shared<DeviceBodies>(context);
  const auto memory = bodies->allocate(24);
  target_.data = memory.get();
  target_.owner = memory;
  target_.device = context->device();
  OutTensor there(target_, bodies, context);
  EXPECT_EQ(there.device(), context->device());
  there.expect(header_, "it");
  const auto body = there.allocate(24);
  EXPECT_EQ(body.get(), target_.data);
  EXPECT_EQ(DeviceBodies::context_of(body), context);

  OutTensor by_way_of_host(target_, transport::make_body_pool(), nullptr);
  by_way_of_host.expect(header_, "it");
  EXPECT_NE(by_way_of_host.allocate(24).get(), target_.data);
}

}  // namespace
}  // namespace crossdock::session
