#include "reads.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "failure.h"

namespace crossdock::simulation {

using dissociated::ReadQueue;

/// What has become of one body: the queue's answers are checked against it.
struct Reads::Record {
  std::size_t position = 0;
  std::vector<std::uint64_t> addresses;
  std::uint64_t bytes = 0;
  bool begun = false;
  bool refused = false;  // the connection was lost before it was begun
  bool fails = false;
  std::uint64_t ends_at = 0;
  int released = 0;
  int abandoned = 0;

  bool ended(std::uint64_t now) const { return begun && now >= ends_at; }
  bool under_way(std::uint64_t now) const { return begun && now < ends_at; }
  bool there(std::uint64_t now) const { return ended(now) && !fails; }
  bool failed(std::uint64_t now) const { return refused || (ended(now) && fails); }
};

class Reads::Body final : public ReadQueue::Body {
 public:
  Body(Reads& reads, std::shared_ptr<Record> record) : reads_(reads), record_(std::move(record)) {}
  const Record* record() const { return record_.get(); }

  bool begin() override {
    const std::uint64_t now = reads_.environment_.now;
    record_->ends_at = now;
    if (!record_->addresses.empty()) {
      record_->refused = reads_.lost_;
      if (reads_.lost_) throw std::runtime_error("the connection is lost");
      const auto under_way = [&](const auto& record) { return record->under_way(now); };
      if (std::ranges::count_if(reads_.queued_, under_way) >= reads_.options_.most_under_way) return false;
      record_->ends_at += 1 + reads_.random_.below(reads_.options_.most_delay);
      record_->fails = reads_.options_.fails_one_in != 0 && reads_.random_.one_in(reads_.options_.fails_one_in);
      std::vector<Books::Read>& under_way_now = reads_.books_.reads;
      std::erase_if(under_way_now, [&](const Books::Read& read) { return read.ends_at <= now; });
      for (const std::uint64_t address : record_->addresses) under_way_now.push_back({address, record_->ends_at});
    }
    record_->begun = true;
    return true;
  }
  bool done() override {
    const std::uint64_t now = reads_.environment_.now;
    if (record_->failed(now)) throw std::runtime_error("a read failed");
    return record_->there(now);
  }
  void release() noexcept override {
    ++record_->released;
    if (!record_->addresses.empty()) reads_.free_(record_->addresses);
  }
  void abandon() noexcept override { ++record_->abandoned; }

 private:
  Reads& reads_;
  const std::shared_ptr<Record> record_;
};

Reads::Reads(const Options& options, Environment& environment, Books& books, Random random, Free free)
    : options_(options),
      environment_(environment),
      books_(books),
      random_(random),
      free_(std::move(free)),
      queue_(options.read_ahead) {}
Reads::~Reads() = default;

void Reads::push(std::size_t position, std::vector<std::uint64_t> addresses, std::uint64_t bytes) {
  auto record = std::make_shared<Record>();
  record->position = position;
  record->addresses = std::move(addresses);
  record->bytes = bytes;
  queued_.push_back(record);
  queue_.push(std::make_unique<Body>(*this, std::move(record)), bytes);
  check("is queued");
}

/// What must come next, by the rules alone.
Reads::Due Reads::due_now() const {
  const Record* const first = queued_.empty() ? nullptr : queued_.front().get();
  if (first != nullptr && first->there(environment_.now)) return Due::kBody;
  if (ending_ == Ending::kError) return Due::kError;
  if (first == nullptr) return ending_ == Ending::kEnd ? Due::kEnd : Due::kNothing;
  return first->failed(environment_.now) ? Due::kFailed : Due::kNothing;
}

Reads::Due Reads::next() {
  static constexpr const char* kNames[] = {"nothing", "a body", "the end", "an error", "a failed read"};
  std::unique_ptr<ReadQueue::Body> body;
  Due got = Due::kNothing;
  try {
    got = static_cast<Due>(queue_.next(&body));
  } catch (const std::runtime_error&) {
    got = Due::kFailed;
  }
  const Due expected = due_now();
  require(got == expected, name() + ": the queue of reads gave " + kNames[static_cast<int>(got)] + "; it should be " +
                               kNames[static_cast<int>(expected)]);
  for (const auto& record : queued_) {
    const bool must = record->there(environment_.now) && !record->addresses.empty();
    require(!must || record->released == 1,
            name() + ", message " + std::to_string(record->position) + ": its body was read, but is still leased");
  }
  if (got == Due::kBody) {
    const Record& first = *queued_.front();
    require(static_cast<const Body*>(body.get())->record() == &first,
            name() + ": a body came out before message " + std::to_string(first.position) + ", which is due");
    queued_.pop_front();
  }
  check("is polled");
  if (got != Due::kNothing) environment_.happened(static_cast<std::uint64_t>(got) << 8);
  return got;
}

/// Holds after every call.
void Reads::check(const std::string& where) const {
  std::uint64_t bytes = 0;
  std::size_t begun = 0;
  for (const auto& record : queued_) {
    require(record->released <= (record->there(environment_.now) ? 1 : 0) && record->abandoned == 0,
            name() + ", message " + std::to_string(record->position) + " " + where +
                ": its lease was released before its body was read");
    if (!record->begun) continue;
    bytes += record->bytes;
    ++begun;
  }
  require(bytes <= options_.read_ahead || begun == 1, name() + ": " + std::to_string(bytes) +
                                                          " bytes are being read ahead; the limit is " +
                                                          std::to_string(options_.read_ahead));
  require(queued_.empty() || queued_.front()->begun || queued_.front()->refused,
          name() + ": nothing reads the body that is due");
  require(queue_.empty() == queued_.empty(), name() + ": the queue of reads doesn't hold what it was given");
}

bool Reads::drop() {
  const std::uint64_t now = environment_.now;
  const bool idle = queue_.drop();
  const auto may_be_read = [&](const auto& record) { return record->under_way(now) || record->failed(now); };
  require(!idle || std::ranges::none_of(queued_, may_be_read),
          name() + ": a connection with a read under way is to be used again");
  for (const auto& record : queued_) {
    require(record->released + record->abandoned == 1 && (record->released == 0 || !may_be_read(record)),
            name() + ", message " + std::to_string(record->position) +
                ": its body was dropped, and its lease went back in the middle of the read or not at all");
  }
  queued_.clear();
  return idle;
}

void Reads::lose() {
  lost_ = true;
  for (const auto& record : queued_) {
    if (!record->under_way(environment_.now) || record->addresses.empty()) continue;
    record->fails = true;
    record->ends_at = environment_.now;
  }
  for (Books::Read& read : books_.reads) read.ends_at = std::min(read.ends_at, environment_.now);
}

std::optional<std::uint64_t> Reads::next_end() const {
  std::optional<std::uint64_t> next;
  for (const auto& record : queued_) {
    if (record->under_way(environment_.now)) next = std::min(next.value_or(record->ends_at), record->ends_at);
  }
  return next;
}

}  // namespace crossdock::simulation
