#include "made_array.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "core/bytes.h"

namespace crossdock::array::test {
namespace {

std::atomic<std::int64_t> live{0};

struct Made {
  std::vector<std::unique_ptr<std::byte[]>> memory;
  std::vector<const void*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> pointers;
  ArrowArray dictionary{};
};

void release_made(ArrowArray* array) {
  auto* made = static_cast<Made*>(array->private_data);
  ASSERT_NE(made, nullptr) << "released twice";
  for (ArrowArray& child : made->children) release(&child);
  release(&made->dictionary);
  array->release = nullptr;
  array->private_data = nullptr;
  delete made;
  --live;
}

/// Deterministic, and different at every position.
std::uint64_t mixed(std::int64_t i) { return (static_cast<std::uint64_t>(i) + 1) * 0x9E3779B97F4A7C15u; }
bool is_valid(std::int64_t i) { return i % 3 != 1; }

Bytes bitmap(std::int64_t n, bool (*bit)(std::int64_t)) {
  Bytes out(static_cast<std::size_t>((n + 7) / 8));
  for (std::int64_t i = 0; i < n; ++i) {
    if (bit(i)) out[static_cast<std::size_t>(i / 8)] |= static_cast<std::byte>(1 << (i % 8));
  }
  return out;
}

template <typename T>
Bytes offsets(std::int64_t n) {
  Bytes out(static_cast<std::size_t>(n + 1) * sizeof(T));
  T at = 2;  // Above 0, as in a slice.
  for (std::int64_t i = 0; i <= n; ++i) {
    store_le<T>(out.data() + i * static_cast<std::int64_t>(sizeof(T)), at);
    at = static_cast<T>(at + static_cast<T>(i % 4));
  }
  return out;
}

template <typename T>
T element(const ArrowArray& array, int buffer, std::int64_t i) {
  return load_le<T>(static_cast<const std::byte*>(array.buffers[buffer]) + i * static_cast<std::int64_t>(sizeof(T)));
}

bool bit(const void* bits, std::int64_t i) {
  return (std::to_integer<int>(static_cast<const std::byte*>(bits)[i / 8] >> (i % 8)) & 1) != 0;
}

std::string hex(const std::byte* data, std::int64_t size) {
  std::string out;
  for (std::int64_t i = 0; i < size; ++i) {
    out += "0123456789abcdef"[std::to_integer<int>(data[i] >> 4)];
    out += "0123456789abcdef"[std::to_integer<int>(data[i] & std::byte{15})];
  }
  return out;
}

std::int64_t index_at(const Field& field, const ArrowArray& array, std::int64_t i) {
  switch (type_layout(field.type).width) {
    case 1: return element<std::int8_t>(array, 1, i);
    case 2: return element<std::int16_t>(array, 1, i);
    case 4: return element<std::int32_t>(array, 1, i);
    default: return element<std::int64_t>(array, 1, i);
  }
}

std::string list_text(const Field& child, const ArrowArray& array, std::int64_t begin, std::int64_t end) {
  std::string out = "[";
  for (std::int64_t i = begin; i < end; ++i) out += value_text(child, array, i) + " ";
  return out + "]";
}

Type parameters(TypeId id, TimeUnit unit, std::int32_t precision = 0, std::int32_t scale = 0, std::int32_t size = 0) {
  Type type;
  type.id = id;
  type.unit = unit;
  type.precision = precision;
  type.scale = scale;
  type.fixed_size = size;
  return type;
}

Field typed(std::string name, Type type) {
  Field out;
  out.name = std::move(name);
  out.type = std::move(type);
  return out;
}

constexpr std::int64_t kDictionaryLength = 5;

template <typename T>
Bytes made_elements(std::int64_t n, std::int64_t (*value)(std::int64_t)) {
  Bytes out(static_cast<std::size_t>(n) * sizeof(T));
  for (std::int64_t i = 0; i < n; ++i) {
    store_le<T>(out.data() + i * static_cast<std::int64_t>(sizeof(T)), static_cast<T>(value(i)));
  }
  return out;
}

Bytes letters(std::int64_t n) {
  Bytes out(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::byte>('a' + mixed(static_cast<std::int64_t>(i)) % 26);
  }
  return out;
}

// Lists of a list view: in no order, some over each other, all within 11 elements.
constexpr std::int64_t kListViewChild = 11;
std::int64_t list_view_offset(std::int64_t i) { return i * 5 % 8; }
std::int64_t list_view_size(std::int64_t i) { return i % 4; }

// Views: short ones, and long ones into two buffers.
constexpr std::int64_t kVariadicSize = 40;
Bytes views(std::int64_t n, const Bytes& data) {
  Bytes out(static_cast<std::size_t>(n * 16));
  for (std::int64_t i = 0; i < n; ++i) {
    std::byte* view = out.data() + i * 16;
    if (i % 3 == 0) {
      const std::int64_t length = i % 13;
      store_le<std::int32_t>(view, static_cast<std::int32_t>(length));
      std::copy_n(data.data() + i % 8, length, view + 4);
      continue;
    }
    const std::int64_t offset = i * 3 % 20;
    store_le<std::int32_t>(view, static_cast<std::int32_t>(13 + i % 5));
    std::copy_n(data.data() + offset, 4, view + 4);
    store_le<std::int32_t>(view + 8, static_cast<std::int32_t>(i % 2));
    store_le<std::int32_t>(view + 12, static_cast<std::int32_t>(offset));
  }
  return out;
}

/// Runs of two elements each, at least one more than `end` asks for; `offset` junk elements before them.
ArrowArray make_run_ends(const Field& field, std::int64_t end, std::int64_t offset) {
  const std::int64_t runs = end / 2 + 1;
  const std::int64_t n = offset + runs;
  Bytes data(static_cast<std::size_t>(n * type_layout(field.type).width));
  for (std::int64_t i = offset; i < n; ++i) {
    const std::int64_t value = (i - offset + 1) * 2;
    switch (type_layout(field.type).width) {
      case 2: store_le<std::int16_t>(data.data() + i * 2, static_cast<std::int16_t>(value)); break;
      case 4: store_le<std::int32_t>(data.data() + i * 4, static_cast<std::int32_t>(value)); break;
      default: store_le<std::int64_t>(data.data() + i * 8, value);
    }
  }
  Parts parts;
  parts.length = runs;
  parts.offset = offset;
  parts.buffers = {std::nullopt, std::move(data)};
  return make_array(std::move(parts));
}

std::string view_text(const ArrowArray& array, std::int64_t i) {
  const auto* view = static_cast<const std::byte*>(array.buffers[1]) + i * 16;
  const auto length = load_le<std::int32_t>(view);
  if (length <= 12) return hex(view + 4, length);
  const auto buffer = load_le<std::int32_t>(view + 8);
  return hex(static_cast<const std::byte*>(array.buffers[2 + buffer]) + load_le<std::int32_t>(view + 12), length);
}

std::size_t child_of_id(const Field& field, std::int8_t id) {
  for (std::size_t i = 0; i < field.type.type_codes.size(); ++i) {
    if (field.type.type_codes[i] == id) return i;
  }
  ADD_FAILURE() << "no child has the type id " << static_cast<int>(id);
  return 0;
}

std::string run_text(const Field& field, const ArrowArray& array, std::int64_t at) {
  const ArrowArray& ends = *array.children[0];
  for (std::int64_t run = 0; run < ends.length; ++run) {
    std::int64_t end = 0;
    switch (type_layout(field.children[0].type).width) {
      case 2: end = element<std::int16_t>(ends, 1, ends.offset + run); break;
      case 4: end = element<std::int32_t>(ends, 1, ends.offset + run); break;
      default: end = element<std::int64_t>(ends, 1, ends.offset + run);
    }
    if (end > at) return value_text(field.children[1], *array.children[1], run);
  }
  ADD_FAILURE() << "no run for element " << at;
  return {};
}

}  // namespace

ArrowArray make_array(Parts parts) {
  auto made = std::make_unique<Made>();
  for (const std::optional<Bytes>& buffer : parts.buffers) {
    if (!buffer) {
      made->buffers.push_back(nullptr);
      continue;
    }
    made->memory.emplace_back(new std::byte[buffer->size()]);
    std::copy(buffer->begin(), buffer->end(), made->memory.back().get());
    made->buffers.push_back(made->memory.back().get());
  }
  made->children = std::move(parts.children);
  for (ArrowArray& child : made->children) made->pointers.push_back(&child);
  if (parts.dictionary) made->dictionary = *parts.dictionary;

  ArrowArray array{};
  array.length = parts.length;
  array.null_count = parts.null_count;
  array.offset = parts.offset;
  array.n_buffers = static_cast<std::int64_t>(made->buffers.size());
  array.n_children = static_cast<std::int64_t>(made->children.size());
  array.buffers = made->buffers.empty() ? nullptr : made->buffers.data();
  array.children = made->pointers.empty() ? nullptr : made->pointers.data();
  array.dictionary = parts.dictionary ? &made->dictionary : nullptr;
  array.release = release_made;
  array.private_data = made.release();
  ++live;
  return array;
}

ArrowDeviceArray on_host(ArrowArray array) {
  ArrowDeviceArray out{};
  out.array = array;
  out.device_id = -1;
  out.device_type = ARROW_DEVICE_CPU;
  return out;
}

std::int64_t live_arrays() noexcept { return live; }

void release(ArrowArray* array) {
  if (array->release != nullptr) array->release(array);
}
void release(ArrowDeviceArray* array) { release(&array->array); }

Field field(std::string name, TypeId id, std::vector<Field> children) {
  Field out = typed(std::move(name), parameters(id, TimeUnit::kSecond));
  out.children = std::move(children);
  return out;
}

Field fixed_size_list(std::string name, std::int32_t size, Field child) {
  Field out = typed(std::move(name), parameters(TypeId::kFixedSizeList, TimeUnit::kSecond, 0, 0, size));
  out.children.push_back(std::move(child));
  return out;
}

Field union_of(std::string name, TypeId id, std::vector<std::int8_t> codes, std::vector<Field> children) {
  Field out = field(std::move(name), id, std::move(children));
  out.type.type_codes = std::move(codes);
  return out;
}

Field run_end_encoded(std::string name, TypeId ends, Field values) {
  Field run_ends = field("run_ends", ends);
  run_ends.nullable = false;
  return field(std::move(name), TypeId::kRunEndEncoded, {std::move(run_ends), std::move(values)});
}

Field dictionary_of(std::string name, TypeId indices, Field values) {
  Field out = field(std::move(name), indices);
  out.dictionary = std::make_shared<Field>(std::move(values));
  return out;
}

std::vector<Field> every_type() {
  using enum TypeId;
  using enum TimeUnit;
  std::vector<Field> fields;
  for (int id = 0; id <= static_cast<int>(kFloat64); ++id) {
    fields.push_back(field("simple" + std::to_string(id), static_cast<TypeId>(id)));
  }
  fields.push_back(typed("decimal32", parameters(kDecimal32, kSecond, 9, 2)));
  fields.push_back(typed("decimal64", parameters(kDecimal64, kSecond, 18, 0)));
  fields.push_back(typed("decimal128", parameters(kDecimal128, kSecond, 38, -3)));
  fields.push_back(typed("decimal256", parameters(kDecimal256, kSecond, 76, 10)));
  fields.push_back(field("date32", kDate32));
  fields.push_back(field("date64", kDate64));
  fields.push_back(typed("time32s", parameters(kTime32, kSecond)));
  fields.push_back(typed("time32ms", parameters(kTime32, kMilli)));
  fields.push_back(typed("time64us", parameters(kTime64, kMicro)));
  fields.push_back(typed("time64ns", parameters(kTime64, kNano)));
  for (const TimeUnit unit : {kSecond, kMilli, kMicro, kNano}) {
    const std::string suffix = std::to_string(static_cast<int>(unit));
    fields.push_back(typed("timestamp" + suffix, parameters(kTimestamp, unit)));
    fields.push_back(typed("local" + suffix, parameters(kTimestamp, unit)));
    fields.back().type.timezone = "Europe/Zurich";
    fields.push_back(typed("duration" + suffix, parameters(kDuration, unit)));
  }
  fields.push_back(field("utf8", kUtf8));
  fields.push_back(field("large_utf8", kLargeUtf8));
  fields.push_back(field("binary", kBinary));
  fields.push_back(field("large_binary", kLargeBinary));
  fields.push_back(typed("fixed", parameters(kFixedSizeBinary, kSecond, 0, 0, 3)));
  fields.push_back(typed("nothing", parameters(kFixedSizeBinary, kSecond, 0, 0, 0)));

  const Field pair = field("pair", kStruct, {field("flag", kBool), field("text", kUtf8)});
  Field entries = field("entries", kStruct, {field("key", kUtf8), field("value", kInt16)});
  entries.nullable = false;
  entries.children[0].nullable = false;
  fields.push_back(field("list", kList, {field("item", kInt32)}));
  fields.push_back(field("large_list", kLargeList, {pair}));
  fields.push_back(fixed_size_list("triple", 3, field("item", kBool)));
  fields.push_back(fixed_size_list("none", 0, field("item", kBool)));
  fields.push_back(fixed_size_list("deep", 2, field("item", kList, {fixed_size_list("inner", 3, pair)})));
  fields.push_back(field("empty", kStruct));
  fields.push_back(field("pair", kStruct, {pair, field("big", kLargeUtf8), field("null", kNull)}));
  fields.push_back(field("map", kMap, {entries}));
  fields.back().type.keys_sorted = true;
  fields.push_back(dictionary_of("words", kInt8, field("", kUtf8)));
  fields.back().dictionary_ordered = true;
  fields.push_back(field("word_lists", kList, {dictionary_of("item", kInt16, field("", kLargeBinary))}));
  fields.push_back(
      dictionary_of("nested", kInt64, field("", kStruct, {dictionary_of("d", kUInt32, field("", kBool))})));
  fields.push_back(dictionary_of("of_lists", kUInt8, field("", kList, {pair})));

  fields.push_back(field("interval_months", kIntervalMonths));
  fields.push_back(field("interval_day_time", kIntervalDayTime));
  fields.push_back(field("interval_month_day_nano", kIntervalMonthDayNano));
  fields.push_back(field("utf8_view", kUtf8View));
  fields.push_back(field("views", kStruct, {field("v", kBinaryView), field("i", kInt32), field("w", kUtf8View)}));
  fields.push_back(field("list_view", kListView, {field("item", kUtf8View)}));
  fields.push_back(field("large_list_view", kLargeListView, {pair}));
  fields.push_back(union_of("sparse", kSparseUnion, {5, 0, 127}, {field("a", kInt16), pair, field("n", kNull)}));
  fields.push_back(
      union_of("dense", kDenseUnion, {3, 1}, {field("a", kUtf8), field("b", kList, {field("item", kBool)})}));
  fields.push_back(union_of("dense_of_nothing", kDenseUnion, {0}, {field("null", kNull)}));
  fields.push_back(run_end_encoded("runs16", kInt16, field("values", kUtf8)));
  fields.push_back(run_end_encoded("runs32", kInt32, dictionary_of("values", kInt8, field("", kBinaryView))));
  fields.push_back(run_end_encoded("runs64", kInt64, pair));
  // Four and more levels of all that is nested.
  fields.push_back(
      field("deep_views", kListView,
            {union_of("u", kDenseUnion, {0, 1},
                      {run_end_encoded("r", kInt32, field("values", kLargeListView, {field("item", kBinaryView)})),
                       fixed_size_list("f", 2, field("item", kUtf8View))})}));
  fields.push_back(
      run_end_encoded("deep_runs", kInt64,
                      union_of("values", kSparseUnion, {0, 9},
                               {field("l", kList, {run_end_encoded("item", kInt16, field("values", kBool))}),
                                field("m", kMap, {entries})})));
  fields.push_back(dictionary_of("of_unions", kInt8,
                                 union_of("", kDenseUnion, {4}, {field("v", kListView, {field("item", kUtf8View)})})));
  fields.push_back(dictionary_of("of_runs", kInt16, run_end_encoded("", kInt32, field("values", kUtf8View))));
  return fields;
}

ArrowArray make_values(const Field& field, std::int64_t length, std::int64_t offset, bool counted) {
  const TypeLayout layout = type_layout(field.type);
  const std::int64_t end = offset + length;
  Parts parts;
  parts.length = length;
  parts.offset = offset;
  parts.null_count = counted || layout.n_buffers == 0 ? 0 : -1;
  std::int64_t pointed_to = 0;
  if (!layout.has_validity()) parts.null_count = 0;
  for (std::size_t b = 0; b < layout.n_buffers; ++b) {
    switch (layout.buffers[b]) {
      case BufferKind::kValidity:
        if (!field.nullable) {
          parts.buffers.emplace_back();
          parts.null_count = 0;
          break;
        }
        parts.buffers.emplace_back(bitmap(end, is_valid));
        for (std::int64_t i = offset; counted && i < end; ++i) parts.null_count += is_valid(i) ? 0 : 1;
        break;
      case BufferKind::kBits:
        parts.buffers.emplace_back(bitmap(end, [](std::int64_t i) { return mixed(i) % 2 == 0; }));
        break;
      case BufferKind::kFixed: {
        Bytes data(static_cast<std::size_t>(end * layout.width));
        for (std::size_t i = 0; i < data.size(); ++i)
          data[i] = static_cast<std::byte>(mixed(static_cast<int>(i)) >> 56);
        const bool is_decimal = field.type.id >= TypeId::kDecimal32 && field.type.id <= TypeId::kDecimal256;
        const bool is_date = field.type.id == TypeId::kDate64;
        const bool is_time = field.type.id == TypeId::kTime32 || field.type.id == TypeId::kTime64;
        for (std::int64_t i = 0; (is_decimal || is_date || is_time) && i < end; ++i) {
          // Two bytes that aren't negative: few digits, a time within a day.
          std::byte* const at = data.data() + i * layout.width;
          std::fill(at + 2, at + layout.width, std::byte{});
          if (is_date) store_le<std::int64_t>(at, load_le<std::uint16_t>(at) * 86'400'000LL);
        }
        for (std::int64_t i = 0; field.dictionary && i < end; ++i) {
          for (std::int32_t w = 0; w < layout.width; ++w) data[static_cast<std::size_t>(i * layout.width + w)] = {};
          data[static_cast<std::size_t>(i * layout.width)] = static_cast<std::byte>(i % kDictionaryLength);
        }
        parts.buffers.emplace_back(std::move(data));
        break;
      }
      case BufferKind::kOffsets32:
        parts.buffers.emplace_back(offsets<std::int32_t>(end));
        pointed_to = load_le<std::int32_t>(parts.buffers.back()->data() + end * 4);
        break;
      case BufferKind::kOffsets64:
        parts.buffers.emplace_back(offsets<std::int64_t>(end));
        pointed_to = load_le<std::int64_t>(parts.buffers.back()->data() + end * 8);
        break;
      case BufferKind::kBytes: parts.buffers.emplace_back(letters(pointed_to)); break;
      case BufferKind::kTypeIds: {
        Bytes ids(static_cast<std::size_t>(end));
        const std::vector<std::int8_t>& codes = field.type.type_codes;
        for (std::size_t i = 0; i < ids.size(); ++i) {
          ids[i] = static_cast<std::byte>(codes[(mixed(static_cast<std::int64_t>(i)) >> 32) % codes.size()]);
        }
        parts.buffers.emplace_back(std::move(ids));
        break;
      }
      case BufferKind::kUnionOffsets:
        parts.buffers.emplace_back(made_elements<std::int32_t>(end, [](std::int64_t i) { return i / 2 + 1; }));
        break;
      case BufferKind::kListViewOffsets32:
        parts.buffers.emplace_back(made_elements<std::int32_t>(end, list_view_offset));
        break;
      case BufferKind::kListViewOffsets64:
        parts.buffers.emplace_back(made_elements<std::int64_t>(end, list_view_offset));
        break;
      case BufferKind::kListViewSizes32:
        parts.buffers.emplace_back(made_elements<std::int32_t>(end, list_view_size));
        break;
      case BufferKind::kListViewSizes64:
        parts.buffers.emplace_back(made_elements<std::int64_t>(end, list_view_size));
        break;
      case BufferKind::kViews: {
        const Bytes data = letters(kVariadicSize);
        parts.buffers.emplace_back(views(end, data));
        parts.buffers.emplace_back(data);
        parts.buffers.emplace_back(data);
        parts.buffers.emplace_back(made_elements<std::int64_t>(2, [](std::int64_t) { return kVariadicSize; }));
        break;
      }
    }
  }
  if (field.type.id == TypeId::kRunEndEncoded) {
    parts.children.push_back(make_run_ends(field.children[0], end, offset));
    parts.children.push_back(make_values(field.children[1], end / 2 + 1, offset, counted));
    return make_array(std::move(parts));
  }
  std::int64_t child_length = pointed_to;
  if (field.type.id == TypeId::kStruct || field.type.id == TypeId::kSparseUnion) child_length = end;
  if (field.type.id == TypeId::kDenseUnion) child_length = end / 2 + 2;
  if (field.type.id == TypeId::kListView || field.type.id == TypeId::kLargeListView) child_length = kListViewChild;
  if (field.type.id == TypeId::kFixedSizeList) child_length = end * field.type.fixed_size;
  for (const Field& child : field.children) parts.children.push_back(make_values(child, child_length, offset, counted));
  if (field.dictionary) parts.dictionary = make_values(*field.dictionary, kDictionaryLength, offset, counted);
  return make_array(std::move(parts));
}

ArrowArray make_struct(const std::vector<Field>& fields, std::int64_t length, std::int64_t offset, bool counted) {
  Parts parts;
  parts.length = length;
  parts.buffers.emplace_back();
  for (const Field& child : fields) parts.children.push_back(make_values(child, length, offset, counted));
  return make_array(std::move(parts));
}

std::string value_text(const Field& field, const ArrowArray& array, std::int64_t i) {
  const std::int64_t at = array.offset + i;
  EXPECT_LT(i, array.length);
  if (field.type.id == TypeId::kNull) return "null";
  if (type_layout(field.type).has_validity() && array.buffers[0] != nullptr && !bit(array.buffers[0], at))
    return "null";
  if (field.dictionary) return value_text(*field.dictionary, *array.dictionary, index_at(field, array, at));
  switch (field.type.id) {
    case TypeId::kBool: return bit(array.buffers[1], at) ? "true" : "false";
    case TypeId::kUtf8:
    case TypeId::kBinary: {
      const auto begin = element<std::int32_t>(array, 1, at);
      return hex(static_cast<const std::byte*>(array.buffers[2]) + begin,
                 element<std::int32_t>(array, 1, at + 1) - begin);
    }
    case TypeId::kLargeUtf8:
    case TypeId::kLargeBinary: {
      const auto begin = element<std::int64_t>(array, 1, at);
      return hex(static_cast<const std::byte*>(array.buffers[2]) + begin,
                 element<std::int64_t>(array, 1, at + 1) - begin);
    }
    case TypeId::kList:
    case TypeId::kMap:
      return list_text(field.children[0], *array.children[0], element<std::int32_t>(array, 1, at),
                       element<std::int32_t>(array, 1, at + 1));
    case TypeId::kLargeList:
      return list_text(field.children[0], *array.children[0], element<std::int64_t>(array, 1, at),
                       element<std::int64_t>(array, 1, at + 1));
    case TypeId::kFixedSizeList:
      return list_text(field.children[0], *array.children[0], at * field.type.fixed_size,
                       (at + 1) * field.type.fixed_size);
    case TypeId::kStruct: {
      std::string out = "{";
      for (std::size_t c = 0; c < field.children.size(); ++c) {
        out += value_text(field.children[c], *array.children[c], at) + " ";
      }
      return out + "}";
    }
    case TypeId::kUtf8View:
    case TypeId::kBinaryView: return view_text(array, at);
    case TypeId::kListView: {
      const auto begin = element<std::int32_t>(array, 1, at);
      return list_text(field.children[0], *array.children[0], begin, begin + element<std::int32_t>(array, 2, at));
    }
    case TypeId::kLargeListView: {
      const auto begin = element<std::int64_t>(array, 1, at);
      return list_text(field.children[0], *array.children[0], begin, begin + element<std::int64_t>(array, 2, at));
    }
    case TypeId::kSparseUnion: {
      const std::size_t c = child_of_id(field, element<std::int8_t>(array, 0, at));
      return std::to_string(c) + "=" + value_text(field.children[c], *array.children[c], at);
    }
    case TypeId::kDenseUnion: {
      const std::size_t c = child_of_id(field, element<std::int8_t>(array, 0, at));
      return std::to_string(c) + "=" +
             value_text(field.children[c], *array.children[c], element<std::int32_t>(array, 1, at));
    }
    case TypeId::kRunEndEncoded: return run_text(field, array, at);
    default: {
      const std::int32_t width = type_layout(field.type).width;
      return hex(static_cast<const std::byte*>(array.buffers[1]) + at * width, width);
    }
  }
}

std::string rows_text(const std::vector<Field>& fields, const ArrowArray& array, std::int64_t start, std::int64_t n) {
  std::string out;
  for (std::size_t c = 0; c < fields.size(); ++c) {
    out += fields[c].name + ":";
    for (std::int64_t i = start; i < start + n; ++i) {
      out += " " + value_text(fields[c], *array.children[c], array.offset + i);
    }
    out += "\n";
  }
  return out;
}

}  // namespace crossdock::array::test
