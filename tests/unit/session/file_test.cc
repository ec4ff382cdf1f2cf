#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/unique_fd.h"
#include "crossdock/core/error.h"
#include "crossdock/session/client.h"
#include "crossdock/session/file.h"
#include "crossdock/session/server.h"
#include "support/arrow_file.h"
#include "support/batches.h"
#include "support/leftovers.h"
#include "support/temporary_folder.h"

namespace crossdock::session {
namespace {

using ::testing::HasSubstr;
using testing::number_at;
using testing::number_stream;
using testing::text_at;

class FileTest : public testing::NoLeftovers {
 protected:
  std::string write(int batches, std::int64_t rows) {
    const std::string path = folder_ / "numbers.arrows";
    testing::write_stream_file(path, *number_stream(batches, rows));
    return path;
  }
  testing::TemporaryFolder folder_;
};

// Whether an address lies in a mapping of the file at `path`.
bool mapped_from(const void* pointer, const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) == std::string::npos) continue;
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &from, &to) != 2) continue;
    const auto at = reinterpret_cast<std::uintptr_t>(pointer);
    if (at >= from && at < to) return true;
  }
  return false;
}

TEST_F(FileTest, IsPassedByDescriptorAndNotOneByteIsCopied) {
  const std::string path = write(5, 1000);
  Server server;
  server.publish("numbers", Source::file(path));
  const SourceStats stats = server.stats().sources.at(0);
  EXPECT_EQ(stats.kind, "file");
  EXPECT_EQ(stats.bytes_copied, 0u);
  EXPECT_EQ(stats.rows, 5000);

  Client client(server.uri());
  const auto reader = client.get("numbers");
  for (int i = 0; i < 5; ++i) {
    const auto batch = reader->next();
    ASSERT_TRUE(batch.has_value());
    EXPECT_EQ(number_at(*batch, 17), i * 1000 + 17);
    EXPECT_EQ(text_at(*batch, 17), std::to_string(i * 1000 + 17));
    EXPECT_TRUE(mapped_from(batch->buffers[1].data, path)) << "the column isn't the file's own memory";
  }
  EXPECT_FALSE(reader->next().has_value());
}

TEST_F(FileTest, ASnapshotIsOneCopyThatNobodyCanChange) {
  const std::string path = write(2, 1000);
  Server server;
  server.publish("numbers", Source::file(path, Stability::kSnapshot));
  EXPECT_EQ(server.stats().sources.at(0).bytes_copied, std::filesystem::file_size(path));
  std::ofstream(path, std::ios::trunc) << "something else";
  Client client(server.uri());
  const auto batch = client.get("numbers")->next();
  EXPECT_EQ(number_at(*batch, 999), 999);
  EXPECT_FALSE(mapped_from(batch->buffers[1].data, path));
}

TEST_F(FileTest, AChangeUnderItsReadersIsAnErrorAtTheNextHandOver) {
  const std::string path = write(50, 1000);
  ServerOptions options;
  options.window = 1;
  Server server(options);
  server.publish("numbers", Source::file(path));
  Client client(server.uri());
  const auto reader = client.get("numbers");
  EXPECT_TRUE(reader->next().has_value());
  // Setting the modification time asks no lease; what a writer does is the next test.
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) - std::chrono::hours(1));
  try {
    while (reader->next()) {
    }
    FAIL() << "a changed file was served to its end";
  } catch (const FileChangedError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path));
  }
  EXPECT_THROW(
      {
        const auto later = client.get("numbers");
        while (later->next()) {
        }
      },
      FileChangedError);
}

TEST_F(FileTest, ReadersKeepAFileThatIsReplacedOrRemoved) {
  const std::string path = write(50, 1000);
  ServerOptions options;
  options.window = 1;
  Server server(options);
  server.publish("numbers", Source::file(path));
  Client client(server.uri());
  const auto reader = client.get("numbers");
  EXPECT_TRUE(reader->next().has_value());
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  write_file(*number_stream(1, 10), path);  // renames a new file over it
  std::filesystem::remove(path);
  int batches = 1;
  while (const auto batch = reader->next()) {
    EXPECT_EQ(number_at(*batch, 17), batches * 1000 + 17);
    ++batches;
  }
  EXPECT_EQ(batches, 50);
  // Whoever comes later is served the file that was published, too.
  EXPECT_EQ(number_at(*client.get("numbers")->next(), 999), 999);
}

// What opening the file for writing, without waiting, says.
int open_for_writing(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  const int error = fd < 0 ? errno : 0;
  if (fd >= 0) ::close(fd);
  return error;
}

bool leases_are_granted(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return ::fcntl(file.get(), F_SETLEASE, F_RDLCK) == 0;
}

TEST_F(FileTest, AWriterIsHeldUpWhileItIsReadAndReadersAreTold) {
  const std::string path = write(50, 1000);
  if (!leases_are_granted(path)) GTEST_SKIP() << "this file system grants no leases";
  ServerOptions options;
  options.window = 1;
  Server server(options);
  server.publish("numbers", Source::file(path));
  Client client(server.uri());
  const auto reader = client.get("numbers");
  auto held = reader->next();
  EXPECT_EQ(open_for_writing(path), EWOULDBLOCK);
  EXPECT_THROW(while (reader->next()){}, FileChangedError);
  EXPECT_EQ(open_for_writing(path), EWOULDBLOCK) << "a batch is still held";
  EXPECT_EQ(number_at(*held, 999), 999);
  held.reset();
  // The server takes the batch back and lets the writer in: opening now waits for just that.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ::close(fd);
  // Nothing was written after all, and the file is served again.
  const auto again = client.get("numbers");
  int batches = 0;
  while (again->next()) ++batches;
  EXPECT_EQ(batches, 50);
}

TEST_F(FileTest, AWriterWaitsForNobodyWhereNobodyReads) {
  const std::string path = write(2, 10);
  Server server;
  server.publish("numbers", Source::file(path));
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_GE(fd, 0);
  ::close(fd);
  server.withdraw("numbers");
  EXPECT_EQ(open_for_writing(path), 0) << "nothing of a withdrawn file is held";
}

TEST_F(FileTest, WhatIsNoArrowFileIsRefusedByName) {
  Server server;
  EXPECT_THROW(server.publish("x", Source::file(folder_ / "absent.arrow")), NotFoundError);
  EXPECT_THROW(server.publish("x", Source::file(folder_ / "")), InvalidArgumentError) << "a folder";
  const std::string text = folder_ / "text.arrow";
  std::ofstream(text) << "number,text\n1,one\n";
  EXPECT_THROW(server.publish("x", Source::file(text)), InvalidDataError);
  const std::string fifo = folder_ / "fifo.arrow";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THROW(server.publish("x", Source::file(fifo)), InvalidArgumentError) << "a pipe, and without hanging on it";
  EXPECT_TRUE(server.stats().sources.empty());
}

TEST_F(FileTest, WhatIsOverTheServersLimitsIsRefused) {
  const std::string path = write(1, 1000);
  const std::string packed = folder_ / "packed.arrow";
  write_file(*number_stream(1, 1000), packed, {.codec = ipc::Codec::kZstd});
  const std::vector<std::pair<std::string, ipc::Limits>> cases = {{path, {.max_fields = 1}},
                                                                  {path, {.max_metadata_bytes = 100}},
                                                                  {path, {.max_buffers = 4}},
                                                                  {packed, {.max_decompressed_bytes = 1000}}};
  for (const auto& [name, limits] : cases) {
    ServerOptions options;
    options.limits = limits;
    Server server(options);
    EXPECT_THROW(server.publish("numbers", Source::file(name)), InvalidDataError);
    EXPECT_TRUE(server.stats().sources.empty());
  }
}

TEST_F(FileTest, ATruncatedFileIsRefusedWhereverItWasCut) {
  const std::string path = write(2, 20);
  const auto size = std::filesystem::file_size(path);
  Server server;
  int refused = 0;
  int whole = 0;
  for (std::uintmax_t cut = 1; cut < size; ++cut) {
    std::filesystem::resize_file(path, size - cut);
    const std::string name = "cut-" + std::to_string(cut);
    try {
      server.publish(name, Source::file(path));
      ++whole;  // only where a stream may end: at a message's end
    } catch (const InvalidDataError&) {
      ++refused;
    } catch (const InvalidArgumentError&) {
      ++refused;  // empty
    }
  }
  EXPECT_GT(refused, static_cast<int>(size) - 20);
  EXPECT_LE(whole, 4);
}

}  // namespace
}  // namespace crossdock::session
