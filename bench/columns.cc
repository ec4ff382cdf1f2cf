// Times C++'s typed columns and builders beside loops over bare memory, in turns. Prints JSON: for each case the
// medians, in nanoseconds, and the median of the ratios of the pairs.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "arguments.h"
#include "crossdock/array/builder.h"
#include "crossdock/array/column.h"

namespace crossdock::bench {
namespace {

constexpr std::int64_t kRows = 1'000'000;

/// Keeps a result, so that its computation isn't left out.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

template <class Call>
double time_ns(Call call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

/// Measures pairs, and prints them as a member of a JSON object.
template <class Ours, class Bare>
void compare(const char* name, std::int64_t pairs, bool last, Ours ours, Bare bare) {
  std::vector<double> a;
  std::vector<double> b;
  std::vector<double> ratios;
  ours();
  bare();
  for (std::int64_t i = 0; i < pairs; ++i) {
    a.push_back(time_ns(ours));
    b.push_back(time_ns(bare));
    ratios.push_back(a.back() / b.back());
  }
  std::printf("\"%s\": {\"ours\": %.0f, \"bare\": %.0f, \"ratio\": %.4f}%s\n", name, median(a), median(b),
              median(ratios), last ? "" : ",");
}

array::RecordBatch make_table() {
  array::BatchBuilder table;
  auto& plain = table.add<double>("plain");
  auto& nullable = table.add<double>("nullable");
  auto& text = table.add<std::string_view>("text");
  table.reserve(kRows);
  for (std::int64_t i = 0; i < kRows; ++i) {
    const double value = static_cast<double>(i) * 0.25;
    plain.append(value);
    i % 10 == 3 ? nullable.append_null() : nullable.append(value);
    text.append(std::string_view("a text of words").substr(0, static_cast<std::size_t>(i % 16)));
  }
  return table.finish();
}

void measure(const Arguments& arguments) {
  const std::int64_t pairs = arguments.number("pairs", 101);
  const array::RecordBatch table = make_table();
  const auto plain = table.column<double>("plain");
  const auto nullable = table.column<double>("nullable");
  const auto text = table.column<std::string_view>("text");
  // The memory as a program finds it that knows Arrow's layout, and nothing of the library.
  const auto* const numbers = static_cast<const double*>(table.buffers[1].data);
  const auto* const bits = static_cast<const std::uint8_t*>(table.buffers[2].data);
  const auto* const with_nulls = static_cast<const double*>(table.buffers[3].data);
  const auto* const offsets = static_cast<const std::int32_t*>(table.buffers[5].data);
  const auto* const bytes = static_cast<const char*>(table.buffers[6].data);

  std::printf("{\"rows\": %lld,\n", static_cast<long long>(kRows));
  compare(
      "sum of values()", pairs, false,
      [&] {
        double sum = 0;
        for (const double value : plain.values()) sum += value;
        keep(sum);
      },
      [&] {
        double sum = 0;
        for (std::int64_t i = 0; i < kRows; ++i) sum += numbers[i];
        keep(sum);
      });
  compare(
      "sum of elements", pairs, false,
      [&] {
        double sum = 0;
        for (const auto element : plain) sum += *element;
        keep(sum);
      },
      [&] {
        double sum = 0;
        for (std::int64_t i = 0; i < kRows; ++i) sum += numbers[i];
        keep(sum);
      });
  compare(
      "sum of elements, a tenth null", pairs, false,
      [&] {
        double sum = 0;
        for (const auto element : nullable) sum += element ? *element : 0;
        keep(sum);
      },
      [&] {
        double sum = 0;
        for (std::int64_t i = 0; i < kRows; ++i) sum += (bits[i / 8] >> (i % 8) & 1) != 0 ? with_nulls[i] : 0;
        keep(sum);
      });
  compare(
      "lengths and first letters of texts", pairs, false,
      [&] {
        std::size_t sum = 0;
        for (const auto element : text)
          sum += element->empty() ? 0 : element->size() + static_cast<std::size_t>(element->front());
        keep(sum);
      },
      [&] {
        std::size_t sum = 0;
        for (std::int64_t i = 0; i < kRows; ++i) {
          const std::string_view value(bytes + offsets[i], static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
          sum += value.empty() ? 0 : value.size() + static_cast<std::size_t>(value.front());
        }
        keep(sum);
      });
  compare(
      "numbers appended to a builder, and to a vector", pairs, true,
      [&] {
        array::BatchBuilder builder;
        auto& column = builder.add<double>("x");
        column.reserve(kRows);
        for (std::int64_t i = 0; i < kRows; ++i) column.append(static_cast<double>(i));
        keep(builder.finish().num_rows);
      },
      [&] {
        std::vector<double> column;
        column.reserve(kRows);
        for (std::int64_t i = 0; i < kRows; ++i) column.push_back(static_cast<double>(i));
        keep(column.data());
      });
  std::printf("}\n");
}

}  // namespace
}  // namespace crossdock::bench

int main(int argc, char** argv) { return crossdock::bench::run(argc, argv, {"pairs"}, crossdock::bench::measure); }
