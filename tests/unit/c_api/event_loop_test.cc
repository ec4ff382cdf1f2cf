// A reader in an event loop: nothing of it waits.
#include <poll.h>

#include <gmock/gmock.h>

#include "samples.h"

namespace crossdock::testing {
namespace {

TEST_F(CApi, AnEventLoopReadsAStream) {
  publish_numbers("numbers", 300, 1);  // more messages than the window
  Reader reader;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("numbers"), nullptr, &reader, &error_)));
  std::int64_t rows = 0;
  for (bool more = true; more;) {
    ArrowDeviceArray batch{};
    std::int32_t arrived = -1;
    ASSERT_TRUE(ok(crossdock_reader_try_next(reader, &batch, &arrived, &error_)));
    if (arrived == 0) {
      EXPECT_EQ(batch.array.release, nullptr);
      std::int32_t sleep = -1;
      ASSERT_TRUE(ok(crossdock_reader_prepare_sleep(reader, &sleep, &error_)));
      if (sleep == 0) continue;
      pollfd waiting{crossdock_reader_descriptor(reader), POLLIN, 0};
      ASSERT_EQ(::poll(&waiting, 1, 30000), 1);
      ASSERT_TRUE(ok(crossdock_reader_awake(reader, &error_)));
      continue;
    }
    more = batch.array.release != nullptr;
    rows += more ? batch.array.length : 0;
    release_of(&batch);
  }
  EXPECT_EQ(rows, 300);
  EXPECT_EQ(crossdock_reader_descriptor(reader), -1);
}

}  // namespace
}  // namespace crossdock::testing
