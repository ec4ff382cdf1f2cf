#include "record_stream.h"

#include <utility>

namespace crossdock::transport::net {

RecordReader::State RecordReader::read(ByteStream& stream) {
  for (;;) {
    if (have_ < kPreambleBytes) {
      bytes_.resize(kPreambleBytes);
    } else if (have_ == kPreambleBytes && bytes_.size() == kPreambleBytes) {
      if (!decode(bytes_, &preamble_)) return State::kForeign;
      bytes_.resize(preamble_.size);
    }
    if (have_ == bytes_.size() && have_ >= kPreambleBytes) return State::kRecord;
    const iovec rest{bytes_.data() + have_, bytes_.size() - have_};
    const IoResult moved = stream.read({&rest, 1});
    if (moved.state == IoResult::State::kEnd) return State::kEnd;
    if (moved.state == IoResult::State::kWouldBlock) return State::kNothing;
    have_ += moved.bytes;
  }
}

bool RecordReader::is_tls() const noexcept {
  constexpr std::byte kHandshake{22};
  constexpr std::byte kMajorVersion{3};
  return have_ > 1 && bytes_[0] == kHandshake && bytes_[1] == kMajorVersion;
}

std::vector<std::byte> RecordReader::next() noexcept {
  have_ = 0;
  return std::exchange(bytes_, {});
}

bool send_record(ByteStream& stream, ByteSpan record) {
  const iovec all{const_cast<std::byte*>(record.data()), record.size()};
  const IoResult moved = stream.write({&all, 1});
  return moved.state == IoResult::State::kBytes && moved.bytes == record.size();
}

}  // namespace crossdock::transport::net
