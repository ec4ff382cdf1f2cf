// Every allocation of the calling thread fails once, alone and with all that follow: each call says so, and what was to
// be taken over is still there or was freed.
#include "samples.h"
#include "support/failing_allocations.h"

namespace crossdock::testing {
namespace {

/// Everything that one round uses. Released in the order in which a program would.
struct Round {
  Released<ArrowArrayStream> stream;
  Server server;
  Source source;
  Source weights;
  Client client;
  Catalog catalog;
  Reader reader;
  Released<ArrowArray> batch;
  DLManagedTensorVersioned* received = nullptr;
  crossdock_error* error = nullptr;

  Round() { array::export_stream(number_stream(1, 2), &stream); }
  ~Round() {
    if (received != nullptr) received->deleter(received);
    crossdock_error_release(&error);
  }
};

/// Serves and gets; ends with the first call that fails, whose number it sets.
crossdock_status live(Round* round, const FloatTensor& weights, int* step) {
  const crossdock_string numbers = crossdock_str("numbers");
  const crossdock_string name = crossdock_str("weights");
  crossdock_error** const error = &round->error;
  const auto failed = [step](crossdock_status status) {
    ++*step;
    return status != CROSSDOCK_OK;
  };
  crossdock_status status = CROSSDOCK_OK;
  if (failed(status = crossdock_serve(nullptr, &round->server, error)) ||
      failed(status = crossdock_source_table(&round->stream, &round->source, error)) ||
      failed(status = crossdock_source_tensor(weights.managed(), &round->weights, error)) ||
      failed(status = crossdock_server_publish(round->server, numbers, &round->source, nullptr, error)) ||
      failed(status = crossdock_server_publish(round->server, name, &round->weights, nullptr, error)) ||
      failed(status = crossdock_connect(crossdock_str(crossdock_server_uri(round->server, 0)), nullptr, &round->client,
                                        error)) ||
      failed(status = crossdock_client_list(round->client, &round->catalog, error)) ||
      failed(status = crossdock_client_get(round->client, numbers, nullptr, &round->reader, error)) ||
      failed(status = crossdock_reader_next(round->reader, &round->batch, error)) ||
      failed(status = crossdock_client_get_tensor(round->client, name, nullptr, &round->received, error))) {
    return status;
  }
  return status;
}

constexpr int kTakesStream = 2;
constexpr int kTakesTensor = 3;

/// Returns the number of allocations; 0 once a round succeeds although they fail from `first` on.
std::int64_t run(std::int64_t first, std::int64_t count) {
  const auto freed = std::make_shared<std::atomic<int>>(0);
  const FloatTensor weights(1, 2, freed);
  int step = 0;
  std::int64_t allocations = 0;
  crossdock_status status = CROSSDOCK_OK;
  {
    Round round;
    {
      const FailingAllocations failing(Whose::kMine, first, count);
      status = live(&round, weights, &step);
      allocations = FailingAllocations::seen();
    }
    if (status != CROSSDOCK_OK) {
      EXPECT_EQ(status, CROSSDOCK_ERROR_RESOURCE) << "step " << step << ": " << crossdock_error_message(round.error);
      EXPECT_EQ(crossdock_error_status(round.error), status);
      EXPECT_STRNE(crossdock_error_message(round.error), "");
      if (step <= kTakesStream) {
        EXPECT_NE(round.stream->release, nullptr) << "allocation " << first << ": the stream is still the caller's";
      }
      if (step > kTakesStream) {
        EXPECT_EQ(round.stream->release, nullptr);
      }
    }
  }
  const bool taken = status == CROSSDOCK_OK || step > kTakesTensor;
  EXPECT_EQ(*freed, taken ? 1 : 0) << "allocation " << first << ", step " << step;
  if (!taken) weights.managed()->deleter(weights.managed());
  return allocations;
}

TEST(CNoMemory, EachCallSaysSo) {
  const std::int64_t n = run(0, 0);
  ASSERT_GT(n, 50) << "operator new of the libraries isn't the test's";
  for (const std::int64_t count : {std::int64_t{1}, n}) {
    for (std::int64_t first = 0; first < n && !HasFailure(); ++first) run(first, count);
  }
}

TEST(CNoMemory, ThereIsAnErrorWithoutMemoryForIt) {
  crossdock_error* error = nullptr;
  {
    const FailingAllocations failing(Whose::kMine, 0, 1000);
    EXPECT_EQ(crossdock_error_set(&error, CROSSDOCK_ERROR_TIMEOUT, crossdock_str("a text that needs memory")),
              CROSSDOCK_ERROR_TIMEOUT);
  }
  EXPECT_EQ(crossdock_error_status(error), CROSSDOCK_ERROR_RESOURCE);
  EXPECT_STREQ(crossdock_error_message(error), "no memory left");
  EXPECT_EQ(crossdock_error_set(&error, CROSSDOCK_ERROR_TIMEOUT, crossdock_str("later")), CROSSDOCK_ERROR_TIMEOUT);
  EXPECT_STREQ(crossdock_error_message(error), "later") << "another object takes its place";
  {
    const FailingAllocations failing(Whose::kMine, 0, 1000);
    crossdock_error_set(&error, CROSSDOCK_ERROR_TIMEOUT, crossdock_str("a text that needs memory"));
  }
  crossdock_error_release(&error);
  EXPECT_EQ(error, nullptr);
}

}  // namespace
}  // namespace crossdock::testing
