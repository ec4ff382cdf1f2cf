// Calls that block are ended by a stop flag, from a thread and from a signal handler.
#include <csignal>
#include <future>
#include <thread>

#include "samples.h"

namespace crossdock::testing {
namespace {

/// A stream without batches, whose end comes once `end` is ready. `begun`, if it isn't null, is set when it is read.
std::unique_ptr<array::BatchStream> silent_stream(std::shared_future<void> end,
                                                  std::shared_ptr<std::promise<void>> begun = nullptr) {
  return std::make_unique<FunctionStream>(number_batch(0, 0).schema, [=]() -> std::optional<array::RecordBatch> {
    if (begun != nullptr) begun->set_value();
    end.wait();
    return std::nullopt;
  });
}

/// A server of a live stream that gives nothing until open() is called, and a client with a stop flag.
class CStop : public CApi {
 protected:
  void SetUp() override {
    CApi::SetUp();
    ASSERT_TRUE(ok(crossdock_stop_new(&stop_, &error_)));
    crossdock_client_options options{};
    options.size = sizeof options;
    options.stop = stop_;
    ASSERT_TRUE(ok(crossdock_connect(crossdock_str(crossdock_server_uri(server_, 0)), &options, &stoppable_, &error_)));

    Released<ArrowArrayStream> stream;
    array::export_stream(silent_stream(opened_.get_future().share()), &stream);
    Source source;
    ASSERT_TRUE(ok(crossdock_source_live(&stream, &source, &error_)));
    publish("silence", &source);
    ASSERT_TRUE(ok(crossdock_client_get(stoppable_, crossdock_str("silence"), nullptr, &reader_, &error_)));
  }
  void TearDown() override {
    if (!is_open_) open();
    crossdock_reader_release(&reader_);
    crossdock_client_release(&stoppable_);
    crossdock_stop_release(&stop_);
    CApi::TearDown();
  }
  void open() {
    is_open_ = true;
    opened_.set_value();
  }

  crossdock_stop* stop_ = nullptr;
  crossdock_client* stoppable_ = nullptr;
  crossdock_reader* reader_ = nullptr;

 private:
  bool is_open_ = false;
  std::promise<void> opened_;
};

TEST_F(CStop, AnotherThreadEndsAWait) {
  std::thread other([this] { crossdock_stop_set(stop_); });
  Released<ArrowArray> batch;
  EXPECT_TRUE(failed(crossdock_reader_next(reader_, &batch, &error_), CROSSDOCK_ERROR_INTERRUPTED));
  other.join();
  EXPECT_EQ(crossdock_stop_is_set(stop_), 1);
  crossdock_stop_clear(stop_);
  EXPECT_EQ(crossdock_stop_is_set(stop_), 0);
  open();
  EXPECT_TRUE(ok(crossdock_reader_next(reader_, &batch, &error_))) << "the stream goes on after an interruption";
  EXPECT_EQ(batch->release, nullptr);
}

crossdock_stop* stop_of_handler = nullptr;

TEST_F(CStop, ASignalHandlerEndsAWait) {
  stop_of_handler = stop_;
  struct sigaction action {};
  action.sa_handler = [](int) { crossdock_stop_set(stop_of_handler); };
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  const pthread_t reading = ::pthread_self();
  std::thread other([reading] { ::pthread_kill(reading, SIGUSR1); });
  Released<ArrowArray> batch;
  EXPECT_TRUE(failed(crossdock_reader_next(reader_, &batch, &error_), CROSSDOCK_ERROR_INTERRUPTED));
  other.join();
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST_F(CStop, TheHandleMayBeReleasedBefore) {
  crossdock_stop_set(stop_);
  crossdock_stop_release(&stop_);
  EXPECT_EQ(stop_, nullptr);
  Released<ArrowArray> batch;
  EXPECT_TRUE(failed(crossdock_reader_next(reader_, &batch, &error_), CROSSDOCK_ERROR_INTERRUPTED));
}

TEST_F(CStop, ATimeLimitEndsAWait) {
  publish_numbers("numbers");
  Released<ArrowArrayStream> stream;
  std::promise<void> never;
  array::export_stream(silent_stream(never.get_future().share()), &stream);
  Source source;
  ASSERT_TRUE(ok(crossdock_source_live(&stream, &source, &error_)));
  publish("late", &source);
  crossdock_get_options options{};
  options.size = sizeof options;
  options.timeout_ms = 1;
  Reader reader;
  ASSERT_TRUE(ok(crossdock_client_get(client_, crossdock_str("late"), &options, &reader, &error_)));
  Released<ArrowArray> batch;
  EXPECT_TRUE(failed(crossdock_reader_next(reader, &batch, &error_), CROSSDOCK_ERROR_TIMEOUT));
  never.set_value();
}

TEST_F(CStop, AServersCloseIsEndedWhileASourceIsInItsCallback) {
  crossdock_server_options options{};
  options.size = sizeof options;
  options.stop = stop_;
  Server server;
  ASSERT_TRUE(ok(crossdock_serve(&options, &server, &error_)));
  Released<ArrowArrayStream> stream;
  const auto begun = std::make_shared<std::promise<void>>();
  std::promise<void> end;
  array::export_stream(silent_stream(end.get_future().share(), begun), &stream);
  Source source;
  ASSERT_TRUE(ok(crossdock_source_live(&stream, &source, &error_)));
  ASSERT_TRUE(ok(crossdock_server_publish(server, crossdock_str("live"), &source, nullptr, &error_)));
  Client client;
  ASSERT_TRUE(ok(crossdock_connect(crossdock_str(crossdock_server_uri(server, 0)), nullptr, &client, &error_)));
  Reader reader;
  ASSERT_TRUE(ok(crossdock_client_get(client, crossdock_str("live"), nullptr, &reader, &error_)));
  begun->get_future().wait();
  crossdock_stop_set(stop_);
  EXPECT_TRUE(failed(crossdock_server_drain(server, -1, nullptr, &error_), CROSSDOCK_ERROR_INTERRUPTED));
  EXPECT_TRUE(failed(crossdock_server_close(server, &error_), CROSSDOCK_ERROR_INTERRUPTED));
  end.set_value();
}

TEST(CStopFlag, OfNothingDoesNothing) {
  crossdock_stop_set(nullptr);
  crossdock_stop_clear(nullptr);
  EXPECT_EQ(crossdock_stop_is_set(nullptr), 0);
  crossdock_stop_release(nullptr);
}

}  // namespace
}  // namespace crossdock::testing
