#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "crossdock/core/error.h"
#include "ipc/container.h"
#include "samples.h"

namespace crossdock::ipc::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::string_view_literals;

std::string error(std::string_view bytes) {
  return error_of<InvalidDataError>([&] { read_container(as_bytes(bytes), "x.data", {}); });
}

TEST(ContainerSniff, OtherFormatsAreNamed) {
  EXPECT_THAT(error("PAR1\x15\x04\x15\x10 and more"sv), HasSubstr("looks like Parquet"));
  EXPECT_THAT(error("FEA1\0\0\0\0"sv), HasSubstr("Feather V1"));
  EXPECT_THAT(error("\x1f\x8b\x08\0\0\0\0\0"sv), HasSubstr("gzip"));
  EXPECT_THAT(error("\x28\xb5\x2f\xfd\0\0\0\0"sv), HasSubstr("Zstandard"));
  EXPECT_THAT(error("PK\x03\x04\0\0\0\0"sv), HasSubstr("zip archive"));
  EXPECT_THAT(error("year,month,day\n2013,1,1\n"sv), HasSubstr("text"));
  EXPECT_THAT(error("PAR1"sv), HasSubstr("x.data isn't an Arrow IPC file"));
}

TEST(ContainerSniff, EmptyFile) { EXPECT_THAT(error(""sv), HasSubstr("x.data is empty (0 bytes)")); }

TEST(ContainerSniff, NoiseIsNotArrow) {
  EXPECT_THAT(error("\x01\x02"sv), HasSubstr("truncated"));
  EXPECT_THAT(error("\x80\x81\x82\x83\x84\x85\x86\x87"sv), HasSubstr("doesn't look like an Arrow"));
  EXPECT_THAT(error("\x7f"
                    "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"sv),
              HasSubstr("doesn't look like an Arrow"));
  EXPECT_NE(error("\xff\xff\xff\xff\x08\0\0\0\0\0\0\0\0\0\0\0"sv), "");
}

}  // namespace
}  // namespace crossdock::ipc::testing
