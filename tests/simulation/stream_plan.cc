#include "stream_plan.h"

#include <string>
#include <utility>

#include "device/region_address.h"

namespace crossdock::simulation {
namespace {

std::vector<std::byte> copy(ByteSpan bytes) { return {bytes.begin(), bytes.end()}; }

/// Numbers start where 32 bits, signed or not, go over their edge as often as at 1.
std::uint32_t some_first_number(Random& random) {
  switch (random.below(4)) {
    case 0: return 0xFFFFFFFF - random.below(12);
    case 1: return 0x7FFFFFFF - random.below(12);
    default: return 1;
  }
}

StreamPlan plan(Random& random) {
  StreamPlan plan;
  plan.first_number = some_first_number(random);
  const std::uint32_t count = random.below(20);
  for (std::uint32_t i = 0; i < count; ++i) {
    plan.messages.push_back({random.one_in(5), random.below(kMostRows + 1), random.one_in(6), {}});
  }
  if (random.one_in(8)) plan.fails_at = random.below(count + 2);
  return plan;
}

}  // namespace

Metadata::Metadata() {
  std::vector<array::Field> fields(kColumns);
  for (int i = 0; i < kColumns; ++i) {
    fields[static_cast<std::size_t>(i)].name = std::string(1, static_cast<char>('a' + i));
    fields[static_cast<std::size_t>(i)].type.id = array::TypeId::kInt64;
  }
  const auto schema = std::make_shared<const array::Schema>(std::move(fields));
  ipc::Encoder encoder;
  schema_ = copy(encoder.schema(*schema));
  const std::int64_t values[kMostRows] = {};
  for (std::int64_t rows = 0; rows <= kMostRows; ++rows) {
    array::RecordBatch batch;
    batch.schema = schema;
    batch.num_rows = rows;
    for (int i = 0; i < kColumns; ++i) {
      batch.nodes.push_back({rows, 0, 0});
      batch.buffers.push_back({nullptr, 0});
      batch.buffers.push_back({rows == 0 ? nullptr : values, rows * 8});
    }
    batches_.push_back(copy(encoder.record_batch(batch)));
    dictionaries_.push_back(copy(encoder.dictionary_batch(batch, 7, false)));
  }
}

StreamPlan plan_table(std::uint16_t region, Random random) {
  StreamPlan table = plan(random);
  // Few addresses for many columns: the same one comes again and again, also twice in one body.
  const std::uint32_t addresses = 1 + random.below(12);
  for (PlannedMessage& message : table.messages) {
    for (int i = 0; i < kColumns; ++i) {
      message.buffers.push_back({});
      message.buffers.push_back({});
      if (message.rows == 0) continue;
      const std::uint64_t offset = 64 * (1 + std::uint64_t{random.below(addresses)} * 2);
      message.buffers.back() = {device::make_address(region, offset), 8 * message.rows};
    }
  }
  return table;
}

StreamPlan plan_live(Random random) {
  StreamPlan live = plan(random);
  live.live = true;
  return live;
}

}  // namespace crossdock::simulation
