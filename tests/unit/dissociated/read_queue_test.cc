#include "dissociated/read_queue.h"

#include <algorithm>
#include <array>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "support.h"

namespace crossdock::dissociated {
namespace {

using Due = ReadQueue::Due;
using Ending = ReadQueue::Ending;

/// What a test knows of one body, also after the queue has dropped it.
struct Read {
  int begun = 0;
  int released = 0;
  int abandoned = 0;
  bool ends = false;     ///< All bytes are there.
  bool fails = false;    ///< In done(), from now on.
  bool refused = false;  ///< begin() fails.
};

class FakeBody final : public ReadQueue::Body {
 public:
  FakeBody(Read& read, const int& slots) : read_(read), slots_(slots) {}
  bool begin() override {
    if (read_.refused) throw std::runtime_error("refused");
    if (slots_ == 0) return false;
    ++read_.begun;
    return true;
  }
  bool done() override {
    EXPECT_EQ(read_.begun, 1);
    EXPECT_EQ(read_.released, 0) << "it is asked again";
    if (read_.fails) throw std::runtime_error("failed");
    return read_.ends;
  }
  void release() noexcept override { ++read_.released; }
  void abandon() noexcept override { ++read_.abandoned; }
  const Read* read() const { return &read_; }

 private:
  Read& read_;
  const int& slots_;
};

class ReadQueueTest : public ::testing::Test {
 protected:
  void push(std::size_t i, std::uint64_t bytes) {
    queue_.push(std::make_unique<FakeBody>(reads_.at(i), slots_), bytes);
  }
  /// The number of the body that comes out, counted from 1; else what is due, as one of the constants below.
  int next() {
    std::unique_ptr<ReadQueue::Body> body;
    const Due due = queue_.next(&body);
    EXPECT_EQ(body != nullptr, due == Due::kBody);
    if (!body) return -static_cast<int>(due);
    return static_cast<int>(static_cast<FakeBody*>(body.get())->read() - reads_.data());
  }
  static constexpr int kNothing = -static_cast<int>(Due::kNothing);
  static constexpr int kEnd = -static_cast<int>(Due::kEnd);
  static constexpr int kError = -static_cast<int>(Due::kError);

  int slots_ = 1;  // 0: too much is under way
  std::array<Read, 8> reads_;
  ReadQueue queue_{100};
};

TEST_F(ReadQueueTest, GivesBodiesInTheirOrderAndEachLeaseBackOnceItWasRead) {
  for (std::size_t i = 1; i <= 3; ++i) push(i, 10);
  EXPECT_EQ(next(), kNothing);
  reads_[2].ends = true;
  EXPECT_EQ(next(), kNothing);
  EXPECT_EQ(reads_[2].released, 1) << "behind one that is still being read";
  EXPECT_EQ(reads_[1].released, 0);
  reads_[1].ends = true;
  EXPECT_EQ(next(), 1);
  EXPECT_EQ(reads_[1].released, 1);
  EXPECT_EQ(next(), 2);
  EXPECT_EQ(next(), kNothing);
  EXPECT_EQ(reads_[3].released, 0);
  reads_[3].ends = true;
  EXPECT_EQ(next(), 3);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(next(), kNothing);
}

TEST_F(ReadQueueTest, ReadsAheadUpToItsLimit) {
  struct Case {
    const char* what;
    std::vector<std::uint64_t> bytes;
    std::size_t begun;
    bool has_room;
  };
  for (const Case& a : {
           Case{"one", {99}, 1, true},
           Case{"one at the limit", {100}, 1, false},
           Case{"one over it", {1000}, 1, false},
           Case{"two that fit", {50, 49}, 2, true},
           Case{"two at the limit", {50, 50}, 2, false},
           Case{"one that doesn't fit", {50, 51}, 1, false},
           Case{"none behind one that doesn't fit", {50, 51, 1}, 1, false},
           Case{"none behind a large one", {200, 0, 1}, 1, false},
           Case{"those without bytes", {100, 0, 0}, 3, false},
       }) {
    reads_ = {};
    {
      ReadQueue queue(100);
      for (std::size_t i = 0; i < a.bytes.size(); ++i) {
        queue.push(std::make_unique<FakeBody>(reads_.at(i), slots_), a.bytes[i]);
      }
      EXPECT_EQ(std::ranges::count(reads_, 1, &Read::begun), static_cast<std::ptrdiff_t>(a.begun)) << a.what;
      EXPECT_EQ(queue.has_room(), a.has_room) << a.what;
    }
    for (std::size_t i = 0; i < a.bytes.size(); ++i) EXPECT_EQ(reads_.at(i).abandoned, reads_.at(i).begun) << a.what;
  }
}

TEST_F(ReadQueueTest, BeginsTheNextReadWithTheDeliveryThatMakesRoom) {
  push(1, 60);
  push(2, 60);
  EXPECT_EQ(reads_[2].begun, 0);
  reads_[1].ends = true;
  EXPECT_EQ(next(), 1);
  EXPECT_EQ(reads_[2].begun, 1) << "it overlaps with the consumer's work";
  EXPECT_TRUE(queue_.has_room());
}

TEST_F(ReadQueueTest, WaitsWhileTooMuchIsUnderWay) {
  slots_ = 0;
  push(1, 10);
  push(2, 10);
  EXPECT_FALSE(queue_.has_room());
  EXPECT_EQ(next(), kNothing);
  EXPECT_EQ(reads_[1].begun, 0);
  slots_ = 1;
  reads_[1].ends = true;
  EXPECT_EQ(next(), 1);
  EXPECT_EQ(reads_[2].begun, 1);
}

TEST_F(ReadQueueTest, EndsOnceItIsEmpty) {
  push(1, 10);
  queue_.end(Ending::kEnd);
  EXPECT_FALSE(queue_.has_room());
  EXPECT_EQ(next(), kNothing);
  reads_[1].ends = true;
  EXPECT_EQ(next(), 1);
  EXPECT_FALSE(queue_.has_room());
  EXPECT_EQ(next(), kEnd);
  EXPECT_EQ(next(), kEnd);
}

TEST_F(ReadQueueTest, AnErrorWaitsForWhatIsThereAndForNothingElse) {
  for (std::size_t i = 1; i <= 3; ++i) push(i, 10);
  reads_[1].ends = reads_[3].ends = true;
  queue_.end(Ending::kError);
  EXPECT_EQ(next(), 1);
  EXPECT_EQ(next(), kError);
  EXPECT_FALSE(queue_.drop());
  EXPECT_EQ(reads_[2].released, 0);
  EXPECT_EQ(reads_[2].abandoned, 1);
  EXPECT_EQ(reads_[3].released, 1);
  EXPECT_EQ(reads_[3].abandoned, 0);
  EXPECT_EQ(next(), kError);
}

TEST_F(ReadQueueTest, AFailedReadWaitsForTheBodiesBeforeIt) {
  push(1, 10);
  push(2, 10);
  reads_[2].fails = true;
  EXPECT_EQ(next(), kNothing);
  reads_[1].ends = true;
  EXPECT_EQ(next(), 1);
  EXPECT_ERROR(next(), std::runtime_error, "failed");
  EXPECT_ERROR(next(), std::runtime_error, "failed");
  EXPECT_FALSE(queue_.drop());
  EXPECT_EQ(reads_[2].released, 0);
  EXPECT_EQ(reads_[2].abandoned, 1);
}

TEST_F(ReadQueueTest, AReadThatCantBeginWaitsForTheBodiesBeforeIt) {
  push(1, 10);
  reads_[2].refused = true;
  push(2, 10);
  reads_[1].ends = true;
  EXPECT_EQ(next(), 1);
  EXPECT_ERROR(next(), std::runtime_error, "refused");
}

TEST_F(ReadQueueTest, AnErrorMessageComesBeforeAFailedRead) {
  push(1, 10);
  reads_[1].fails = true;
  queue_.end(Ending::kError);
  EXPECT_EQ(next(), kError);
}

TEST_F(ReadQueueTest, DroppedWithoutAReadUnderWayItReleasesAll) {
  push(1, 200);
  push(2, 10);
  reads_[1].ends = true;
  EXPECT_EQ(next(), 1);
  reads_[2].ends = true;
  slots_ = 0;
  push(3, 10);
  EXPECT_EQ(next(), 2);
  EXPECT_TRUE(queue_.drop());
  EXPECT_EQ(reads_[3].begun, 0);
  EXPECT_EQ(reads_[3].released, 1);
  EXPECT_EQ(reads_[3].abandoned, 0);
  EXPECT_TRUE(queue_.empty());
}

/// Reads of any size that end in any order, a few slots for them, and a consumer of any pace: whatever is drawn, the
/// rules hold after every call.
TEST(ReadQueueProperty, HoldsItsRulesWhateverIsDrawn) {
  constexpr std::size_t kBodies = 30;
  for (unsigned seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](unsigned bound) { return static_cast<unsigned>(random() % bound); };
    const std::uint64_t read_ahead = below(300);
    const bool fails = below(3) == 0;
    std::array<Read, kBodies> reads;
    std::array<std::uint64_t, kBodies> bytes{};
    for (std::uint64_t& size : bytes) size = below(4) == 0 ? 0 : below(200);
    int slots = 1;
    std::size_t pushed = 0;
    std::size_t out = 0;
    {
      ReadQueue queue(read_ahead);
      const auto check = [&](bool polled) {
        std::uint64_t begun = 0;
        std::size_t n_begun = 0;
        for (std::size_t i = 0; i < pushed; ++i) {
          const Read& read = reads[i];
          EXPECT_EQ(read.abandoned, 0);
          EXPECT_LE(read.released, read.begun == 1 && read.ends ? 1 : 0);
          if (i < out || (polled && read.begun == 1 && read.ends && !read.fails)) {
            EXPECT_EQ(read.released, 1);
          }
          if (i > out) {
            EXPECT_LE(read.begun, reads[i - 1].begun) << "begun before the one before it";
          }
          if (i < out || read.begun == 0) continue;
          begun += bytes[i];
          ++n_begun;
        }
        EXPECT_TRUE(begun <= read_ahead || n_begun == 1);
        EXPECT_EQ(queue.empty(), out == pushed);
      };
      while (out < kBodies) {
        slots = static_cast<int>(below(3));
        if (pushed < kBodies && queue.has_room()) {
          queue.push(std::make_unique<FakeBody>(reads[pushed], slots), bytes[pushed]);
          ++pushed;
          check(false);
          if (below(2) == 0) continue;
        }
        Read& some = reads[below(kBodies)];
        if (some.begun == 1 && some.released == 0) (fails && below(20) == 0 ? some.fails : some.ends) = true;
        const bool there = out < pushed && reads[out].ends && !reads[out].fails;
        std::unique_ptr<ReadQueue::Body> body;
        try {
          const Due due = queue.next(&body);
          ASSERT_EQ(due, there ? Due::kBody : Due::kNothing);
        } catch (const std::runtime_error&) {
          ASSERT_TRUE(reads[out].fails);
          break;
        }
        if (body) {
          ASSERT_EQ(static_cast<FakeBody*>(body.get())->read(), &reads[out]);
          ++out;
        }
        check(!body);
      }
    }
    for (std::size_t i = out; i < pushed; ++i) EXPECT_EQ(reads[i].released + reads[i].abandoned, 1);
  }
}

}  // namespace
}  // namespace crossdock::dissociated
