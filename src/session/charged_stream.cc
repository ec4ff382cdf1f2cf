#include "session/charged_stream.h"

#include <utility>

#include "crossdock/core/error.h"
#include "dissociated/wire.h"
#include "session/published_table.h"

namespace crossdock::session {
namespace {

/// Of a message's metadata: all but its nodes, buffers and pairs. Some 200 bytes were seen.
constexpr std::uint64_t kMessage = 320;
/// A vector has up to twice the room that it needs.
constexpr std::uint64_t kGrowth = 2;

BatchCost cost_of(const array::RecordBatch& batch) {
  std::uint64_t metadata = kMessage + 16 * batch.nodes.size() + 16 * batch.buffers.size() +
                           sizeof(std::int64_t) * batch.variadic_counts.size();
  for (const auto& [key, value] : batch.custom_metadata) metadata += 32 + key.size() + value.size();
  const std::uint64_t kept = metadata + sizeof(PublishedMessage) + sizeof(std::shared_ptr<const void>) +
                             sizeof(dissociated::RemoteBuffer) * batch.buffers.size();
  return {.buffers = static_cast<std::uint64_t>(batch.nbytes()), .messages = kGrowth * kept};
}

void add_dictionary(const array::RecordBatch& values, BatchCost* to) {
  const BatchCost own = cost_of(values);
  to->buffers += own.buffers;
  to->messages += own.messages;
  for (const auto& nested : values.dictionaries) {
    if (nested) add_dictionary(*nested, to);  // null: none of its values is used
  }
}

}  // namespace

std::uint64_t cost_of(const array::Schema& schema) noexcept {
  return schema.nodes().size() * (sizeof(array::Field) + sizeof(array::LayoutNode));
}

std::optional<array::RecordBatch> ChargedStream::next() {
  if (failure_) std::rethrow_exception(failure_);
  std::optional<array::RecordBatch> batch = stream_->next();
  if (!batch) return batch;
  BatchCost cost = cost_of(*batch);
  dictionaries_.resize(batch->dictionaries.size());
  for (std::size_t i = 0; i < dictionaries_.size(); ++i) {
    const auto& values = batch->dictionaries[i];
    if (values && values != dictionaries_[i]) add_dictionary(*values, &cost);
  }
  dictionaries_ = batch->dictionaries;
  try {
    charge_(cost);
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
  return batch;
}

std::unique_ptr<array::BatchStream> bounded(std::unique_ptr<array::BatchStream> stream, std::uint64_t limit) {
  if (limit == 0) return stream;
  return std::make_unique<ChargedStream>(std::move(stream), [limit, left = limit](const BatchCost& cost) mutable {
    const std::uint64_t more = cost.buffers + cost.messages;
    if (more > left) {
      throw ResourceError("a table that a client sends may take " + std::to_string(limit) +
                          " bytes with its messages (max_put), and this one takes more: raise max_put, or send fewer " +
                          "and larger batches");
    }
    left -= more;
  });
}

}  // namespace crossdock::session
