#include "crossdock/session/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/server.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/temporary_folder.h"

namespace crossdock::session {
namespace {

using ::testing::ElementsAre;
using testing::FunctionStream;
using ::testing::HasSubstr;
using testing::number_at;
using testing::number_batch;
using testing::number_stream;
using testing::TemporaryFolder;
using testing::text_at;

class OpenAndWrite : public testing::NoLeftovers {
 protected:
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "")) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }
  std::string write(const std::string& name, int batches, const WriteOptions& options = {}) const {
    const std::string path = folder_ / name;
    write_file(*number_stream(batches, 100), path, options);
    return path;
  }

  TemporaryFolder folder_;
};

std::int64_t expect_numbers(array::BatchStream& stream) {
  std::int64_t rows = 0;
  while (const auto batch = stream.next()) {
    for (std::int64_t i = 0; i < batch->num_rows; ++i, ++rows) {
      EXPECT_EQ(number_at(*batch, i), rows);
      EXPECT_EQ(text_at(*batch, i), std::to_string(rows));
    }
  }
  return rows;
}

template <class E, class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return {};
}

TEST_F(OpenAndWrite, ComesBackAsItWasWritten) {
  for (const ipc::ContainerForm form : {ipc::ContainerForm::kFile, ipc::ContainerForm::kStream}) {
    for (const ipc::Codec codec : {ipc::Codec::kNone, ipc::Codec::kLz4Frame, ipc::Codec::kZstd}) {
      const std::string path = folder_ / "x.arrow";
      const WriteResult result = write_file(*number_stream(5, 100), path, {form, codec, std::nullopt, {}});
      EXPECT_EQ(result.batches, 5);
      EXPECT_EQ(result.rows, 500);
      EXPECT_EQ(result.bytes, static_cast<std::int64_t>(std::filesystem::file_size(path)));
      const auto reader = open_file(path);
      EXPECT_EQ(reader->num_batches(), 5);
      EXPECT_EQ(expect_numbers(*reader), 500);
    }
  }
  EXPECT_THAT(entries(), ElementsAre("x.arrow"));
}

TEST_F(OpenAndWrite, LargeBodiesAreSpreadOverThreads) {
  for (const ipc::Codec codec : {ipc::Codec::kLz4Frame, ipc::Codec::kZstd}) {
    const std::string path = folder_ / "x.arrow";
    write_file(*number_stream(3, 200'000), path, {ipc::ContainerForm::kFile, codec, std::nullopt, {}});
    EXPECT_EQ(expect_numbers(*open_file(path)), 600'000);
  }
}

TEST_F(OpenAndWrite, ReadersKeepTheFileThatIsReplaced) {
  const std::string path = write("x.arrow", 5);
  const auto reader = open_file(path);
  const array::RecordBatch first = reader->batch(0);
  write("x.arrow", 1);
  EXPECT_EQ(number_at(first, 99), 99);
  // The old file lost its name, and none of its bytes.
  EXPECT_EQ(number_at(reader->batch(1), 99), 199);
  EXPECT_EQ(expect_numbers(*open_file(path)), 100);
}

TEST_F(OpenAndWrite, AFileIsRewrittenFromItself) {
  const std::string path = write("x.arrow", 5);
  write_file(*open_file(path), path, {ipc::ContainerForm::kStream, ipc::Codec::kZstd, std::nullopt, {}});
  const auto reader = open_file(path);
  EXPECT_FALSE(reader->has_footer());
  EXPECT_EQ(expect_numbers(*reader), 500);
}

TEST_F(OpenAndWrite, ACutFileIsToldByAnError) {
  const std::string path = write("x.arrow", 5);
  const auto reader = open_file(path);
  EXPECT_EQ(reader->next()->num_rows, 100);
  ASSERT_EQ(::truncate(path.c_str(), 100), 0);
  EXPECT_THAT(error_of<FileChangedError>([&] { reader->next(); }), HasSubstr("x.arrow"));
}

TEST_F(OpenAndWrite, AFileThatIsWrittenToIsToldByAnError) {
  const std::string path = write("x.arrow", 5);
  const auto reader = open_file(path);
  EXPECT_EQ(reader->next()->num_rows, 100);
  std::ofstream(path, std::ios::app) << "more";
  EXPECT_THAT(error_of<FileChangedError>([&] { reader->next(); }), HasSubstr("size"));
}

TEST_F(OpenAndWrite, ASourceThatFailsChangesNothing) {
  const std::string path = write("x.arrow", 2);
  int left = 3;
  FunctionStream source(number_batch(0, 0).schema, [&]() -> std::optional<array::RecordBatch> {
    if (left-- == 0) throw InvalidDataError("no more");
    return number_batch(0, 10);
  });
  EXPECT_EQ(error_of<InvalidDataError>([&] { write_file(source, path); }), "no more");
  EXPECT_EQ(expect_numbers(*open_file(path)), 200);
  EXPECT_THAT(entries(), ElementsAre("x.arrow"));
}

TEST_F(OpenAndWrite, ModeAndLinksAreKept) {
  const std::string path = write("x.arrow", 1);
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  const std::string link = folder_ / "link.arrow";
  ASSERT_EQ(::symlink("x.arrow", link.c_str()), 0);
  write("link.arrow", 2);
  struct stat status {};
  ASSERT_EQ(::lstat(link.c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_EQ(expect_numbers(*open_file(path)), 200);
}

TEST_F(OpenAndWrite, EveryNameThatTheSystemAllowsIsWritten) {
  for (const std::size_t length : {1, 239, 240, 255}) {
    const std::string name(length, 'n');
    const std::string path = write(name, 1);
    EXPECT_EQ(expect_numbers(*open_file(path)), 100);
    EXPECT_THAT(entries(), ElementsAre(name));
    std::filesystem::remove(path);
  }
  const std::string over(256, 'n');
  EXPECT_THAT(error_of<SystemError>([&] { write(over, 1); }), HasSubstr("File name too long"));
  EXPECT_THAT(entries(), ElementsAre());
  // A path that is as long as one may be, in a folder where the name of the part that is written is longer.
  std::string folder = folder_ / "";
  while (folder.size() + 201 < 4090) {
    folder += std::string(200, 'd');
    std::filesystem::create_directory(folder);
    folder += '/';
  }
  folder += std::string(4090 - folder.size(), 'd');
  std::filesystem::create_directory(folder);
  const std::string deep = folder + "/xyz";
  write_file(*number_stream(1, 100), deep);
  EXPECT_EQ(expect_numbers(*open_file(deep)), 100);
}

TEST_F(OpenAndWrite, AReaderKeepsAFileThatIsReplaced) {
  const std::string path = write("x.arrow", 3);
  const auto reader = open_file(path);
  ASSERT_TRUE(reader->next());
  write("x.arrow", 1);
  EXPECT_EQ(reader->next()->num_rows, 100);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ(reader->next()->num_rows, 100);
  EXPECT_FALSE(reader->next());
}

TEST_F(OpenAndWrite, PlacesThatCantBeWritten) {
  EXPECT_THAT(error_of<NotFoundError>([&] { write("no/such.arrow", 1); }), HasSubstr("no/such.arrow"));
  EXPECT_THAT(error_of<InvalidArgumentError>([&] { write("", 1); }), HasSubstr("folder"));
  EXPECT_THAT(error_of<ResourceError>([&] { write_file(*number_stream(1, 100), "/dev/full"); }),
              HasSubstr("/dev/full"));
  EXPECT_THAT(error_of<NotFoundError>([&] { open_file(folder_ / "absent"); }), HasSubstr("absent"));
  EXPECT_THAT(error_of<InvalidArgumentError>([&] {
                write_file(*number_stream(1, 1), folder_ / "x", {ipc::ContainerForm::kFile, ipc::Codec::kZstd, 99, {}});
              }),
              HasSubstr("compression level 99"));
  EXPECT_THAT(entries(), ElementsAre());
}

/// What a client gets of a file that a server serves, and what publishing it cost.
struct Served {
  std::int64_t rows;
  SourceStats stats;
};

Served serve(const std::string& path) {
  Server server;
  server.publish("x", Source::file(path));
  Client client(server.uri());
  const std::int64_t rows = expect_numbers(*client.get("x"));
  return {rows, server.stats().sources.at(0)};
}

TEST_F(OpenAndWrite, ServedAsItLies) {
  const Served served = serve(write("x.arrow", 5));
  EXPECT_EQ(served.rows, 500);
  EXPECT_EQ(served.stats.kind, "file");
  EXPECT_EQ(served.stats.bytes_copied, 0u);
}

TEST_F(OpenAndWrite, ServedFromOneDecodedCopyWhereItIsCompressed) {
  for (const ipc::Codec codec : {ipc::Codec::kLz4Frame, ipc::Codec::kZstd}) {
    const Served served = serve(write("x.arrow", 5, {ipc::ContainerForm::kFile, codec, std::nullopt, {}}));
    EXPECT_EQ(served.rows, 500);
    EXPECT_EQ(served.stats.kind, "snapshot");
    EXPECT_EQ(served.stats.bytes_copied, served.stats.bytes);
    EXPECT_GT(served.stats.bytes_copied, 500u * 8);
  }
}

}  // namespace
}  // namespace crossdock::session
