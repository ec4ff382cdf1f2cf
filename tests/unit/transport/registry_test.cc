#include "transport/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crossdock/core/error.h"
#include "transport/memory.h"
#include "transport/shm.h"

namespace crossdock::transport {
namespace {

using ::testing::HasSubstr;

TEST(TransportRegistry, FindsByScheme) {
  TransportRegistry registry;
  const auto memory = make_memory_transport();
  registry.add(memory);
  registry.add(make_shm_transport());
  EXPECT_EQ(registry.find("memory"), memory);
  EXPECT_EQ(registry.find("shm")->scheme(), "shm");
  EXPECT_THROW(registry.add(make_memory_transport()), InvalidArgumentError);
}

TEST(TransportRegistry, SaysWhatThereIs) {
  TransportRegistry registry;
  const auto what = [&](const char* scheme) -> std::string {
    try {
      registry.find(scheme);
    } catch (const SchemeError& error) {
      return error.what();
    }
    return "found";
  };
  EXPECT_THAT(what("tcp"), HasSubstr("the schemes are none"));
  registry.add(make_memory_transport());
  registry.add(make_shm_transport());
  EXPECT_THAT(what("tcp"), HasSubstr("the schemes are memory:, shm:"));
  EXPECT_THAT(what("a\nb"), HasSubstr("\\n")) << "what came from outside is shown, not printed";
}

TEST(TransportRegistry, OptionsThatCantWorkAreRefusedAtOnce) {
  EXPECT_THROW(make_shm_transport({.ring_bytes = 1}), InvalidArgumentError);
  EXPECT_FALSE(make_shm_transport()->needs_sealed_files());
  EXPECT_TRUE(make_shm_transport({.any_user = true})->needs_sealed_files());
}

}  // namespace
}  // namespace crossdock::transport
