#include "handshake.h"

#include <algorithm>
#include <span>
#include <utility>

namespace crossdock::transport::tcp {

std::uint64_t own_features(const TcpOptions& options) noexcept {
  constexpr std::uint64_t kAlways = kFeatureErrorMessages | kFeatureCountedLeases | kFeatureCancel;
  switch (options.checksum) {
    case Checksum::kAuto: return kAlways | kFeatureChecksums;
    case Checksum::kOn: return kAlways | kFeatureChecksums | kFeatureAsksForChecksums;
    case Checksum::kOff: break;
  }
  return kAlways;
}

bool use_checksums(std::uint64_t own, std::uint64_t peer) noexcept {
  return (own & peer & kFeatureChecksums) != 0 && ((own | peer) & kFeatureAsksForChecksums) != 0;
}

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
    const Moved moved = stream.read({&rest, 1});
    if (moved.state == Moved::State::kEnd) return State::kEnd;
    if (moved.state == Moved::State::kNothing) return State::kNothing;
    have_ += moved.bytes;
  }
}

std::vector<std::byte> RecordReader::next() noexcept {
  have_ = 0;
  return std::exchange(bytes_, {});
}

bool send_record(ByteStream& stream, ByteSpan record) {
  const iovec all{const_cast<std::byte*>(record.data()), record.size()};
  const Moved moved = stream.write({&all, 1});
  return moved.state == Moved::State::kSome && moved.bytes == record.size();
}

std::unique_ptr<TcpConnection> join(UniqueFd socket, const Introduction& introduction, const TcpOptions& options) {
  const std::uint64_t common = introduction.own_features & introduction.peer_features;
  const bool checksums = use_checksums(introduction.own_features, introduction.peer_features);
  // Initialized separately, and before the other members: g++ 12 destroys members of a nested aggregate twice if a
  // later initializer throws.
  Agreement agreement{.want_data = introduction.want_data,
                      .free_data = introduction.free_data,
                      .role = introduction.role,
                      .error_messages = (common & kFeatureErrorMessages) != 0,
                      .counted_leases = (common & kFeatureCountedLeases) != 0,
                      .cancel = (common & kFeatureCancel) != 0,
                      .checksums = checksums,
                      .same_user = false,
                      .peer = introduction.where};
  std::string where = introduction.where;
  TcpConnection::Parts parts{
      .socket = std::move(socket),
      .agreement = std::move(agreement),
      .send_limit = std::min(options.max_message, introduction.peer_max_message),
      .take_limit = introduction.max_message,
      .body_limit = introduction.peer_max_body,
      .where = std::move(where),
  };
  return std::make_unique<TcpConnection>(std::move(parts), options);
}

}  // namespace crossdock::transport::tcp
