#include "soak/peer/consume.h"

#include <exception>
#include <thread>
#include <vector>

#include "support/batches.h"

namespace crossdock::soak {
namespace {

void check_batch(const array::RecordBatch& batch, int index) {
  const std::int64_t first = index * kRows;
  if (batch.num_rows != kRows) throw BrokenPromise("a batch of " + std::to_string(batch.num_rows) + " rows");
  for (std::int64_t row = 0; row < kRows; ++row) {
    if (testing::number_at(batch, row) != first + row || testing::text_at(batch, row) != std::to_string(first + row)) {
      throw BrokenPromise("row " + std::to_string(first + row) + " has the value " +
                          std::to_string(testing::number_at(batch, row)));
    }
  }
}

void check_all(const std::vector<array::RecordBatch>& batches, std::size_t first) {
  for (std::size_t i = 0; i < batches.size(); ++i) check_batch(batches[i], static_cast<int>(first + i));
}

void read_stream(session::Client& client, std::mt19937_64& random, Progress* progress) {
  const std::string name = random() % 2 == 0 ? "table" : "live";
  session::GetOptions options;
  options.wait = random() % 4 == 0 ? transport::WaitMode::kSpin : transport::WaitMode::kBlock;
  if (random() % 4 == 0) options.validation = array::Validation::kFull;
  const bool hold = random() % 2 == 0;
  const int leave_after = random() % 4 == 0 ? static_cast<int>(random() % kBatches) : -1;
  std::vector<array::RecordBatch> held;
  const auto reader = client.get(name, options);
  int batches = 0;
  try {
    while (batches != leave_after) {
      auto batch = reader->next();
      if (!batch) break;
      check_batch(*batch, batches++);
      if (hold) held.push_back(*std::move(batch));
    }
  } catch (const Error&) {
    check_all(held, 0);  // they outlive the stream and its server
    throw;
  }
  check_all(held, 0);
  if (batches == leave_after) return;
  if (batches != kBatches) throw BrokenPromise(name + " ended after " + std::to_string(batches) + " batches");
  ++progress->whole;
  progress->stage = Stage::kWorks;
}

}  // namespace

void consume_once(session::Client& client, std::mt19937_64& random, Progress* progress) {
  ++progress->attempts;
  try {
    if (random() % 8 != 0) {
      read_stream(client, random, progress);
    } else if (client.list().empty()) {
      throw BrokenPromise("the catalog is empty");
    }
  } catch (const Error&) {
    ++progress->failed;
    throw;
  }
}

void consume_on_two_threads(session::Client& client, std::mt19937_64& random, Progress* progress) {
  std::exception_ptr failure;
  std::mt19937_64 other_random(random());
  std::thread other([&] {
    try {
      consume_once(client, other_random, progress);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  try {
    consume_once(client, random, progress);
  } catch (...) {
    other.join();
    throw;
  }
  other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace crossdock::soak
