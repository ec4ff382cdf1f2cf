#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "crossdock/core/error.h"
#include "metadata_mutator.h"
#include "metadata_samples.h"
#include "samples.h"

/// Every field of every table that metadata can hold: left out, and with numbers that make no sense. It is refused by
/// name, or reads as the default that the format has for it.
namespace crossdock::ipc::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::optional<std::int64_t> kLeftOut;
constexpr const char* kRefused = nullptr;
constexpr const char* kNothing = "";

/// What comes of a sample whose first place of this name is left out, or has this value. It reads as before but for
/// what `was` there (kNothing: wholly so), which `becomes` something else; or it is kRefused with this in the error.
struct Case {
  const char* sample;
  const char* place;
  std::optional<std::int64_t> value;
  const char* was;
  const char* becomes;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"coded", "Message.version", kLeftOut, kRefused, "UnsupportedTypeError: the sample: metadata version V1"},
      {"coded", "Message.version", 3, "V5", "V4"},
      {"coded", "Message.version", 5, kRefused, "UnsupportedTypeError: the sample: metadata version V6"},
      {"coded", "Message.version", -1, kRefused, "UnsupportedTypeError"},
      {"coded", "Message.header_type", kLeftOut, kRefused, "the message has no header"},
      {"coded", "Message.header_type", 6, kRefused, "UnsupportedTypeError: the sample: message header number 6"},
      {"coded", "Message.header_type", 255, kRefused, "UnsupportedTypeError: the sample: message header number 255"},
      {"coded", "Message.header", kLeftOut, kRefused, "the message's header is absent"},
      {"coded", "Message.body_length", kLeftOut, kNothing, kNothing},
      {"coded", "Message.body_length", -1, kRefused, "the body's length is -1"},
      {"coded", "Message.body_length", 64, kRefused, "a schema message must have no body, but this one has 64 bytes"},
      {"batch", "Message.body_length", kLeftOut, kRefused, "isn't inside the body of 0 bytes"},
      {"coded", "Message.custom_metadata", kLeftOut, " m=n", ""},

      {"coded", "KeyValue.key", kLeftOut, " m=n", " =n"},
      {"coded", "KeyValue.value", kLeftOut, " m=n", " m="},

      {"coded", "Schema.endianness", kLeftOut, kNothing, kNothing},
      {"coded", "Schema.endianness", 1, "little", "big"},
      {"coded", "Schema.endianness", 2, kRefused, "endianness 2 doesn't exist"},
      {"coded", "Schema.fields", kLeftOut, "\na: utf8 dictionary 4 by int16 ordered k=v", ""},
      {"coded", "Schema.custom_metadata", kLeftOut, "schema: s=t", "schema:"},
      {"coded", "Schema.features", kLeftOut, ", feature 2", ""},
      {"coded", "Schema.features[]", kMin, "feature 2", "feature -9223372036854775808"},

      {"coded", "Field.name", kLeftOut, "\na:", "\n[0]:"},
      {"coded", "Field.nullable", kLeftOut, "utf8", "utf8 not null"},
      {"coded", "Field.nullable", 77, kNothing, kNothing},
      {"coded", "Field.type_type", kLeftOut, kRefused, "field \"a\": it has no type"},
      {"coded", "Field.type_type", 27, kRefused, "UnsupportedTypeError: the sample: field \"a\": type number 27"},
      {"coded", "Field.type_type", 255, kRefused, "UnsupportedTypeError: the sample: field \"a\": type number 255"},
      {"coded", "Field.type", kLeftOut, kRefused, "its type has no parameters table"},
      {"coded", "Field.dictionary", kLeftOut, " dictionary 4 by int16 ordered", ""},
      {"coded", "Field.children", kLeftOut, kNothing, kNothing},
      {"map", "Field.children", kLeftOut, kRefused, "has 1 child fields, not 0"},
      {"coded", "Field.custom_metadata", kLeftOut, " k=v", ""},

      {"coded", "DictionaryEncoding.id", kLeftOut, "dictionary 4", "dictionary 0"},
      {"coded", "DictionaryEncoding.id", -1, kRefused, "dictionary id -1 is negative"},
      {"coded", "DictionaryEncoding.id", kMax, "dictionary 4", "dictionary 9223372036854775807"},
      {"coded", "DictionaryEncoding.index_type", kLeftOut, "int16", "int32"},
      {"coded", "DictionaryEncoding.is_ordered", kLeftOut, " ordered", ""},
      {"coded", "DictionaryEncoding.is_ordered", 77, kNothing, kNothing},
      {"coded", "DictionaryEncoding.dictionary_kind", kLeftOut, kNothing, kNothing},
      {"coded", "DictionaryEncoding.dictionary_kind", 1, kRefused, "UnsupportedTypeError: the sample: field \"a\""},

      {"int", "Int.bit_width", kLeftOut, kRefused, "integers of 0 bits don't exist"},
      {"int", "Int.bit_width", 128, kRefused, "integers of 128 bits don't exist"},
      {"int", "Int.bit_width", -64, kRefused, "integers of -64 bits don't exist"},
      {"int", "Int.is_signed", kLeftOut, "int64", "uint64"},
      {"int", "Int.is_signed", 77, kNothing, kNothing},
      {"float", "FloatingPoint.precision", kLeftOut, "float64", "float16"},
      {"float", "FloatingPoint.precision", 3, kRefused, "floating-point precision 3 doesn't exist"},
      {"decimal", "Decimal.precision", kLeftOut, kRefused, "needs a precision of 1 to 38"},
      {"decimal", "Decimal.precision", 39, kRefused, "needs a precision of 1 to 38"},
      {"decimal", "Decimal.precision", -1, kRefused, "needs a precision of 1 to 38"},
      {"decimal", "Decimal.scale", kLeftOut, "(30, 10)", "(30, 0)"},
      {"decimal", "Decimal.scale", -2147483648, "(30, 10)", "(30, -2147483648)"},
      {"decimal", "Decimal.bit_width", kLeftOut, kNothing, kNothing},
      {"decimal", "Decimal.bit_width", 512, kRefused, "decimals of 512 bits don't exist"},
      {"decimal", "Decimal.bit_width", 64, kRefused, "needs a precision of 1 to 18"},
      {"date", "Date.unit", kLeftOut, "date32", "date64"},
      {"date", "Date.unit", 2, kRefused, "date unit 2 doesn't exist"},
      {"time", "Time.unit", kLeftOut, kRefused, "time64[ms] doesn't exist"},
      {"time", "Time.unit", 4, kRefused, "time unit 4 doesn't exist"},
      {"time", "Time.bit_width", kLeftOut, kRefused, "time32[ns] doesn't exist"},
      {"time", "Time.bit_width", 16, kRefused, "times of 16 bits don't exist"},
      {"timestamp", "Timestamp.unit", kLeftOut, "[us", "[s"},
      {"timestamp", "Timestamp.unit", -1, kRefused, "time unit -1 doesn't exist"},
      {"timestamp", "Timestamp.timezone", kLeftOut, ", UTC", ""},
      {"duration", "Duration.unit", kLeftOut, "[us", "[ms"},
      {"duration", "Duration.unit", 4, kRefused, "time unit 4 doesn't exist"},
      {"interval", "Interval.unit", kLeftOut, "days, ms", "months"},
      {"interval", "Interval.unit", 3, kRefused, "interval unit 3 doesn't exist"},
      {"fixed binary", "FixedSizeBinary.byte_width", kLeftOut, "[7]", "[0]"},
      {"fixed binary", "FixedSizeBinary.byte_width", -1, kRefused, "negative size"},
      {"fixed list", "FixedSizeList.list_size", kLeftOut, "[3]", "[0]"},
      {"fixed list", "FixedSizeList.list_size", -1, kRefused, "negative size"},
      {"map", "Map.keys_sorted", kLeftOut, "[keys sorted]", ""},
      {"map", "Map.keys_sorted", 77, kNothing, kNothing},
      {"union", "Union.mode", kLeftOut, "dense", "sparse"},
      {"union", "Union.mode", 2, kRefused, "union mode 2 doesn't exist"},
      {"union", "Union.type_ids", kLeftOut, "[5, 9]", "[0, 1]"},
      {"union", "Union.type_ids#", 1, kRefused, "1 type ids and 2 children"},
      {"union", "Union.type_ids[]", 9, kRefused, "gives a type id to two children"},
      {"union", "Union.type_ids[]", 128, kRefused, "type id 128; they are 0 to 127"},

      {"batch", "RecordBatch.length", kLeftOut, kRefused, "9 elements in a batch of 0 rows"},
      {"batch", "RecordBatch.length", -1, kRefused, "the number of rows is -1"},
      {"batch", "RecordBatch.length", kMax, kRefused, "9 elements in a batch of 9223372036854775807 rows"},
      {"batch", "RecordBatch.nodes", kLeftOut, kRefused, "0 field nodes, but the schema has 3"},
      {"batch", "RecordBatch.buffers", kLeftOut, kRefused, "0 buffers, but the schema needs 7"},
      {"batch", "RecordBatch.variadic_buffer_counts", kLeftOut, kRefused, "0 variadic buffer counts"},
      {"batch", "RecordBatch.variadic_buffer_counts[]", -1, kRefused, "a view has -1 variadic buffers"},
      {"batch", "RecordBatch.variadic_buffer_counts[]", kMax, kRefused, "a batch may have 1048576 buffers"},
      {"batch", "FieldNode.length", -1, kRefused, "length -1 with a null count of 1"},
      {"batch", "FieldNode.length", kMax, kRefused, "too few for 9223372036854775807 elements"},
      {"batch", "FieldNode.null_count", -1, "nodes 9/1", "nodes 9/-1"},
      {"batch", "FieldNode.null_count", -2, kRefused, "a null count of -2"},
      {"batch", "FieldNode.null_count", 10, kRefused, "a null count of 10"},
      {"batch", "Buffer.offset", -1, kRefused, "buffer 0 (offset -1, length 2) isn't inside the body of 704 bytes"},
      {"batch", "Buffer.offset", kMax, kRefused, "isn't inside the body of 704 bytes"},
      {"batch", "Buffer.length", -1, kRefused, "isn't inside the body of 704 bytes"},
      {"batch", "Buffer.length", kMax, kRefused, "isn't inside the body of 704 bytes"},
      {"batch", "Buffer.offset", 65, kRefused,
       "buffer 0 (offset 65, length 2) overlaps buffer 1 (offset 64, length 36)"},
      {"batch", "Buffer.length", 0, kRefused, "1 null, but no validity buffer"},
      {"compressed", "Buffer.length", 25, kRefused, "buffer 1 (offset 24, length 40) overlaps buffer 0"},
      {"compressed", "RecordBatch.compression", kLeftOut, kRefused, "buffer 1 has 40 bytes, too few for 8 elements"},
      {"compressed", "BodyCompression.codec", kLeftOut, "zstd", "lz4"},
      {"compressed", "BodyCompression.codec", 2, kRefused, "UnsupportedTypeError: the sample: the body is compressed"},
      {"compressed", "BodyCompression.method", kLeftOut, kNothing, kNothing},
      {"compressed", "BodyCompression.method", 1, kRefused, "UnsupportedTypeError: the sample: the body is compressed"},

      {"dictionary", "DictionaryBatch.id", kLeftOut, "dictionary 4", "dictionary 0"},
      {"dictionary", "DictionaryBatch.id", -1, kRefused, "dictionary id -1 is negative"},
      {"dictionary", "DictionaryBatch.data", kLeftOut, kRefused, "the dictionary batch has no data"},
      {"dictionary", "DictionaryBatch.is_delta", kLeftOut, " delta", ""},
      {"dictionary", "DictionaryBatch.is_delta", 77, kNothing, kNothing},

      {"tensor", "Tensor.type_type", kLeftOut, kRefused, "the tensor's type is invalid: it has no type"},
      {"tensor", "Tensor.type_type", 27, kRefused, "UnsupportedTypeError: the sample: the tensor has a type"},
      {"tensor", "Tensor.type", kLeftOut, kRefused, "well-formed"},
      {"tensor", "Int.bit_width", 24, kRefused, "the tensor's type is invalid: integers of 24 bits don't exist"},
      {"tensor of times", "Time.unit", kLeftOut, kRefused, "time64[ms] doesn't exist"},
      {"tensor", "Tensor.shape", kLeftOut, kRefused, "well-formed"},
      {"tensor", "Tensor.strides", kLeftOut, "3 by 4 row, 4 by 12 column", "3 by 16 row, 4 by 4 column"},
      {"tensor", "Tensor.strides[]", -4, kRefused, "a stride of -4"},
      {"tensor", "Tensor.strides[]", kMax, kRefused, "has an extent in bytes that overflows 63 bits"},
      {"tensor", "Tensor.data", kLeftOut, kRefused, "well-formed"},
      {"tensor", "TensorDim.size", kLeftOut, "3 by 4 row", "0 by 4 row"},
      {"tensor", "TensorDim.size", -1, kRefused, "a size of -1"},
      {"tensor", "TensorDim.size", kMax, kRefused, "has an extent in bytes that overflows 63 bits"},
      {"tensor", "TensorDim.name", kLeftOut, "4 row", "4 "},

      // The messages' versions decide.
      {"footer", "Footer.version", kLeftOut, kNothing, kNothing},
      {"footer", "Footer.version", 5, kRefused, "metadata version V6"},
      {"footer", "Footer.schema", kLeftOut, kRefused, "the footer has no schema"},
      {"footer", "Footer.dictionaries", kLeftOut, ", dictionary of 128", ""},
      {"footer", "Footer.record_batches", kLeftOut, "5 rows, dictionary of 128, record batch of 64",
       "0 rows, dictionary of 128"},
      {"footer", "Footer.custom_metadata", kLeftOut, " k=v", ""},
      {"footer", "Block.offset", -8, kRefused, "which doesn't end before the footer"},
      {"footer", "Block.offset", kMax, kRefused, "which doesn't end before the footer"},
      {"footer", "Block.offset", 0, kRefused, "over the limit"},
      {"footer", "Block.metadata_length", -1, kRefused, "which doesn't end before the footer"},
      {"footer", "Block.metadata_length", 0, kRefused, "which doesn't end before the footer"},
      {"footer", "Block.metadata_length", 8, kRefused, "truncated"},
      {"footer", "Block.body_length", -1, kRefused, "which doesn't end before the footer"},
      // Where a body ends is what its own message says.
      {"footer", "Block.body_length", kMax, kNothing, kNothing},
  };
  return all;
}

/// What reading gives: the text of it, or of the error.
std::string outcome(const MetadataSample& sample, const Bytes& bytes, bool* refused = nullptr) {
  try {
    if (refused) *refused = false;
    return sample.read(bytes);
  } catch (const Error& error) {
    if (refused) *refused = true;
    return std::string(error_name(error.code())) + ": " + error.what();
  }
}

TEST(MetadataFields, LeftOutOrAbsurd) {
  const std::vector<MetadataSample> samples = metadata_samples();
  for (const Case& one : cases()) {
    SCOPED_TRACE(std::string(one.sample) + ", " + one.place +
                 (one.value ? " = " + std::to_string(*one.value) : " left out"));
    const auto sample = std::ranges::find(samples, one.sample, &MetadataSample::name);
    ASSERT_NE(sample, samples.end());
    const std::vector<Place> places = MetadataMutator(sample->root).places(sample->bytes);
    const auto place = std::ranges::find(places, one.place, &Place::name);
    ASSERT_NE(place, places.end());
    bool refused = false;
    const std::string got = outcome(*sample,
                                    one.value ? MetadataMutator::with(sample->bytes, *place, *one.value)
                                              : MetadataMutator::without(sample->bytes, *place),
                                    &refused);
    ASSERT_EQ(refused, one.was == kRefused) << got;
    if (refused) {
      EXPECT_THAT(got, HasSubstr(one.becomes));
    } else {
      std::string expected = sample->read(sample->bytes);
      const std::size_t at = expected.find(one.was);
      ASSERT_NE(at, expected.npos);
      EXPECT_EQ(got, expected.replace(at, std::string_view(one.was).size(), one.becomes));
    }
  }
}

TEST(MetadataFields, NoneIsForgotten) {
  std::set<std::string> left_out;
  std::set<std::string> absurd;
  for (const Case& one : cases()) (one.value ? absurd : left_out).insert(one.place);
  for (const char* root : {"Message", "Footer"}) {
    for (const std::string& field : MetadataMutator(root).fields_of_tables()) {
      EXPECT_TRUE(left_out.contains(field)) << field;
    }
  }
  for (const MetadataSample& sample : metadata_samples()) {
    for (const Place& place : MetadataMutator(sample.root).places(sample.bytes)) {
      const bool is_number = !place.is_reference && place.width > 0 && !place.name.ends_with('#');
      EXPECT_TRUE(!is_number || absurd.contains(place.name)) << place.name;
    }
  }
}

/// Whatever the number or the offset: an error that names the place, or something that holds together (see
/// MetadataSample::read).
TEST(MetadataFields, AnyNumberAnywhere) {
  for (const MetadataSample& sample : metadata_samples()) {
    for (const Place& place : MetadataMutator(sample.root).places(sample.bytes)) {
      std::vector<std::int64_t> values{kMin,
                                       kMin + 1,
                                       -65,
                                       -64,
                                       -8,
                                       -2,
                                       -1,
                                       kMax - 1,
                                       kMax,
                                       1ll << 62,
                                       1ll << 32,
                                       (1ll << 32) - 1,
                                       (1ll << 31) - 1,
                                       1ll << 31,
                                       1 << 20,
                                       32767,
                                       32768,
                                       255};
      for (std::int64_t value = 0; value < 130; ++value) values.push_back(value);
      for (const std::int64_t value : values) {
        if (place.width == 0 || (place.at == 0 && place.is_reference)) continue;
        SCOPED_TRACE(sample.name + ", " + place.name + " = " + std::to_string(value));
        bool refused = false;
        const std::string got = outcome(sample, MetadataMutator::with(sample.bytes, place, value), &refused);
        EXPECT_TRUE(!refused || got.find("the sample") != got.npos) << got;
      }
    }
  }
}

}  // namespace
}  // namespace crossdock::ipc::testing
