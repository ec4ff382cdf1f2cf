#include "support/sycl.h"

#include "conformance/driver/driver_conformance.h"

namespace crossdock::device {

namespace {

using crossdock::testing::Sycl;

/// `properties` of the queues of others: 0 is out-of-order, as dpctl's are; 2 is in-order.
DriverCase sycl_case(const std::string& name, int properties) {
  return {
      .name = name,
      .make =
          [] {
            std::string why_not;
            return std::shared_ptr<Driver>(crossdock::testing::make_sycl_target(why_not));
          },
      .kinds = {MemoryKind::kDevice, MemoryKind::kHost, MemoryKind::kShared},
      .exportable = {},
      .make_native_queue =
          [properties] {
            auto sycl = std::make_shared<Sycl>();
            void* queue = sycl->call<void*>("DPCTLQueue_CreateForDevice", sycl->device(),
                                            static_cast<Sycl::Handler*>(nullptr), properties);
            return std::shared_ptr<void>(queue, [sycl](void* gone) { sycl->call<void>("DPCTLQueue_Delete", gone); });
          },
      .make_native_event =
          [properties] {
            auto sycl = std::make_shared<Sycl>();
            void* event = sycl->call<void*>("DPCTLQueue_SubmitBarrier", sycl->queue(properties).get());
            return std::shared_ptr<void>(event, [sycl](void* gone) { sycl->call<void>("DPCTLEvent_Delete", gone); });
          },
      .asynchronous = true,
      .copies_queues = true,
      .optional = true,
  };
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Sycl, DriverConformance,
                         ::testing::Values(sycl_case("sycl", 2), sycl_case("sycl_out_of_order", 0)),
                         [](const auto& test) { return test.param.name; });

}  // namespace crossdock::device
