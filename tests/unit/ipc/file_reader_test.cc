#include "crossdock/ipc/file_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "crossdock/core/error.h"
#include "ipc/container.h"
#include "memory_sink.h"
#include "samples.h"
#include "support/batches.h"

namespace crossdock::ipc::testing {
namespace {

using crossdock::testing::number_at;
using crossdock::testing::number_batch;
using crossdock::testing::text_at;
using ::testing::HasSubstr;

constexpr Codec kCodecsOrNone[] = {Codec::kNone, Codec::kLz4Frame, Codec::kZstd};
constexpr ContainerForm kForms[] = {ContainerForm::kFile, ContainerForm::kStream};

FileWriterOptions as(ContainerForm form, Codec codec) {
  FileWriterOptions options;
  options.form = form;
  options.codec = codec;
  return options;
}

std::unique_ptr<FileReader> open(const std::vector<std::byte>& bytes, FileReaderOptions options = {},
                                 std::size_t shift = 0) {
  auto memory = std::make_shared<std::vector<std::byte>>(bytes.size() + shift);
  std::copy(bytes.begin(), bytes.end(), memory->begin() + static_cast<std::ptrdiff_t>(shift));
  const ByteSpan span = ByteSpan(*memory).subspan(shift);
  return std::make_unique<FileReader>(FileBytes{"x.arrow", span, memory}, std::move(options));
}

std::vector<array::RecordBatch> three() { return {number_batch(0, 10), number_batch(10, 0), number_batch(10, 300)}; }

std::int64_t read_all(FileReader& reader) {
  std::int64_t rows = 0;
  while (const auto batch = reader.next()) {
    for (std::int64_t i = 0; i < batch->num_rows; ++i, ++rows) {
      EXPECT_EQ(number_at(*batch, i), rows);
      EXPECT_EQ(text_at(*batch, i), std::to_string(rows));
    }
  }
  return rows;
}

TEST(FileReader, ReadsWhatWasWritten) {
  for (const ContainerForm form : kForms) {
    for (const Codec codec : kCodecsOrNone) {
      const auto reader = open(write_all(three(), as(form, codec)));
      EXPECT_EQ(reader->has_footer(), form == ContainerForm::kFile);
      EXPECT_EQ(reader->num_batches(), 3);
      EXPECT_EQ(reader->num_rows(), 310);
      EXPECT_EQ(read_all(*reader), 310);
      EXPECT_FALSE(reader->next().has_value());
    }
  }
}

TEST(FileReader, BatchesAreViewsThatOutliveIt) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(write_all(three(), {}));
  auto reader = std::make_unique<FileReader>(FileBytes{"x.arrow", *bytes, bytes});
  const array::RecordBatch batch = reader->batch(2);
  const auto* data = static_cast<const std::byte*>(batch.buffers[1].data);
  EXPECT_TRUE(data > bytes->data() && data < bytes->data() + bytes->size());
  EXPECT_EQ((data - bytes->data()) % 64, 0) << "bodies are written at multiples of 64";
  reader.reset();
  EXPECT_EQ(bytes.use_count(), 2) << "the batch keeps the file";
  EXPECT_EQ(number_at(batch, 299), 309);
}

TEST(FileReader, BuffersAtOddAddressesAreCopied) {
  for (const Codec codec : kCodecsOrNone) {
    const auto bytes = write_all(three(), as(ContainerForm::kFile, codec));
    auto memory = std::make_shared<std::vector<std::byte>>(bytes.size() + 4);
    std::copy(bytes.begin(), bytes.end(), memory->begin() + 4);
    FileReader reader(FileBytes{"x.arrow", ByteSpan(*memory).subspan(4), memory});
    const array::RecordBatch batch = reader.batch(2);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch.buffers[1].data) % 8, 0u);
    EXPECT_EQ(read_all(reader), 310);
  }
}

TEST(FileReader, AnyOrderInAFile) {
  const auto reader = open(write_all(three(), {}));
  EXPECT_EQ(number_at(reader->batch(2), 0), 10);
  EXPECT_EQ(reader->next()->num_rows, 10);
  EXPECT_EQ(reader->batch(0).num_rows, 10);
  EXPECT_EQ(reader->next()->num_rows, 0) << "next() isn't moved";
  EXPECT_THAT(error_of<InvalidArgumentError>([&] { reader->batch(3); }), HasSubstr("x.arrow has 3"));
  EXPECT_THAT(error_of<InvalidArgumentError>([&] { reader->batch(-1); }), HasSubstr("no batch -1"));
  const auto stream = open(write_all(three(), as(ContainerForm::kStream, Codec::kNone)));
  EXPECT_THAT(error_of<UnsupportedError>([&] { stream->batch(0); }), HasSubstr("only be read in order"));
}

TEST(FileReader, EveryType) {
  std::vector<array::Field> fields = every_type()->fields();
  // Samples are zeros: run ends can't be.
  std::erase_if(fields, [](const array::Field& top) { return top.type.id == array::TypeId::kRunEndEncoded; });
  const auto schema = std::make_shared<const array::Schema>(std::move(fields));
  for (const ContainerForm form : kForms) {
    for (const Codec codec : kCodecsOrNone) {
      const auto reader = open(write_all({make_batch(schema, 5, true), make_batch(schema, 0, true)}, as(form, codec)));
      EXPECT_TRUE(*reader->schema() == *schema);
      EXPECT_EQ(reader->next()->num_rows, 5);
      EXPECT_EQ(reader->next()->num_rows, 0);
    }
  }
}

TEST(FileReader, CustomMetadata) {
  MemorySink sink;
  FileWriterOptions options;
  options.metadata = {{"foot", "er"}};
  FileWriter writer(&sink, number_batch(0, 1).schema, options);
  array::RecordBatch batch = number_batch(0, 1);
  batch.custom_metadata = {{"a", "b"}};
  writer.write(batch);
  writer.write(number_batch(1, 1));
  writer.finish();
  EXPECT_EQ(writer.bytes_written(), static_cast<std::int64_t>(sink.bytes.size()));
  const auto reader = open(sink.bytes);
  EXPECT_EQ(reader->custom_metadata(), (array::Metadata{{"foot", "er"}}));
  EXPECT_EQ(reader->next()->custom_metadata, batch.custom_metadata);
  EXPECT_EQ(reader->next()->custom_metadata, array::Metadata{});
  EXPECT_EQ(reader->batch(0).custom_metadata, batch.custom_metadata);
}

TEST(FileReader, CutAnywhere) {
  for (const ContainerForm form : kForms) {
    for (const Codec codec : kCodecsOrNone) {
      const auto bytes = write_all({number_batch(0, 3), number_batch(3, 3)}, as(form, codec));
      for (std::size_t n = 0; n < bytes.size(); ++n) {
        const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
        std::int64_t rows = -1;
        const std::string text = error_of<InvalidDataError>([&] { rows = read_all(*open(cut)); });
        // A stream file may end between messages; anything else is told.
        const bool whole_part = form == ContainerForm::kStream && rows >= 0 && rows % 3 == 0;
        EXPECT_TRUE(whole_part || !text.empty()) << n;
      }
    }
  }
}

TEST(FileReader, EveryByteFlipped) {
  for (const ContainerForm form : kForms) {
    for (const Codec codec : {Codec::kNone, Codec::kZstd}) {
      auto bytes = write_all({number_batch(0, 2)}, as(form, codec));
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        for (const unsigned flip : {0x01u, 0x80u, 0xffu}) {
          bytes[i] ^= static_cast<std::byte>(flip);
          try {
            FileReaderOptions options;
            options.validation = array::Validation::kFull;
            const auto reader = open(bytes, options);
            while (reader->next()) {
            }
          } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr("x.arrow"));
          }
          bytes[i] ^= static_cast<std::byte>(flip);
        }
      }
    }
  }
}

TEST(FileReader, FullValidationLooksAtElements) {
  array::RecordBatch batch = number_batch(0, 3);
  const char text[] = "\xff\xfe\xfd";
  batch.buffers[4] = {text, 3};
  const auto bytes = write_all({batch}, {});
  EXPECT_EQ(open(bytes)->next()->num_rows, 3);
  FileReaderOptions options;
  options.validation = array::Validation::kFull;
  const auto reader = open(bytes, options);
  EXPECT_THAT(error_of<InvalidDataError>([&] { reader->next(); }), HasSubstr("x.arrow: "));
  EXPECT_THAT(error_of<InvalidDataError>([&] { reader->next(); }), HasSubstr("x.arrow: ")) << "and it stays";
}

TEST(FileReader, AChangedFileIsTold) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(write_all(three(), {}));
  bool changed = false;
  FileBytes file{"x.arrow", *bytes, bytes};
  file.check_unchanged = [&] {
    if (changed) throw FileChangedError("changed");
  };
  FileReader reader(std::move(file));
  EXPECT_EQ(reader.next()->num_rows, 10);
  changed = true;
  EXPECT_EQ(error_of<FileChangedError>([&] { reader.next(); }), "changed");
}

/// Metadata that is another than that which was read at first.
TEST(FileReader, MetadataThatChangedIsTold) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(write_all({number_batch(0, 3)}, {}));
  FileReader reader(FileBytes{"x.arrow", *bytes, bytes});
  const Container container = read_container(*bytes, "x.arrow", {});
  Encoder encoder;
  const ByteSpan other = encoder.record_batch(number_batch(0, 100));
  ASSERT_LE(static_cast<std::int64_t>(other.size()), container.messages[0].metadata_length);
  std::memcpy(bytes->data() + container.messages[0].metadata_offset, other.data(), other.size());
  EXPECT_THAT(error_of<FileChangedError>([&] { reader.next(); }), HasSubstr("changed while it was read"));
}

TEST(FileReader, LimitsOnCopies) {
  const auto bytes = write_all({number_batch(0, 1000)}, as(ContainerForm::kFile, Codec::kZstd));
  FileReaderOptions options;
  options.limits.max_decompressed_bytes = 1000;
  EXPECT_THAT(error_of<InvalidDataError>([&] { open(bytes, options)->next(); }), HasSubstr("limit of 1000"));
  const auto plain = write_all({number_batch(0, 1000)}, {});
  EXPECT_EQ(open(plain, options)->next()->num_rows, 1000) << "views take no memory";
  EXPECT_THAT(error_of<InvalidDataError>([&] { open(plain, options, 1)->next(); }), HasSubstr("limit of 1000"));
}

}  // namespace
}  // namespace crossdock::ipc::testing
