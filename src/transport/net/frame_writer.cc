#include "frame_writer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "device/changing_memory.h"

namespace crossdock::transport::net {
namespace {

constexpr std::size_t kControlBytes = 2 * kHeaderBytes;  // a kTaken and a kWindow
constexpr std::size_t kPartsPerCall = 256;               // far under the system's limit
/// Limits of one call, so that other connections get their turn.
constexpr std::size_t kBytesPerCall = 256 << 10;
constexpr int kWritesPerCall = 16;           // of many small parts
constexpr std::size_t kKeptQueue = 1 << 20;  // bytes of capacity that an empty queue may keep
/// For a body with checksums: how much is summed at once before it is offered.
constexpr std::size_t kPiece = kBytesPerCall;

iovec part_of(ByteSpan bytes) noexcept { return {const_cast<std::byte*>(bytes.data()), bytes.size()}; }

}  // namespace

bool FrameWriter::send(FrameKind kind, std::uint64_t tag, ByteSpan head, ByteSpan tail, bool corked) {
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  const std::uint64_t length = head.size() + tail.size();
  const std::size_t total = kHeaderBytes + static_cast<std::size_t>(length) + trailer_size(length, checksums_);
  const auto no_room = [&] { return has_body() || (queued() > 0 && queued() + total > queue_limit_); };
  if (no_room()) {
    push_locked(&dropped);
    update();
    if (no_room()) {
      refusals_.add();
      return false;
    }
  }
  if (ended()) return false;

  make_room(kControlBytes + total);  // for bytes that the stream may not accept: no frame is cut
  // First: the peer's answer may arrive before this thread continues.
  if (is_message(kind)) sent_.fetch_add(1, std::memory_order_release);
  std::array<std::byte, kControlBytes + kHeaderBytes> start;
  std::size_t start_size = add_control(start.data());
  store(start.data() + start_size, {kind, tag, length}, checksums_);
  start_size += kHeaderBytes;
  const std::uint32_t sum = checksums_ == Checksums::kEach ? crc32c(crc32c(head), tail) : 0;
  const Trailer trailer = make_trailer(length, checksums_, sum);
  const std::array<ByteSpan, 4> all = {ByteSpan(start).first(start_size), head, tail,
                                       ByteSpan(trailer).first(trailer_size(length, checksums_))};
  std::size_t out = 0;
  if (queued() == 0 && !corked) {
    std::array<iovec, all.size()> parts{};
    std::ranges::transform(all, parts.begin(), part_of);
    const IoResult moved = stream_.write(parts);
    if (moved.state == IoResult::State::kEnd) end(moved.error, &dropped);
    out = moved.bytes;
    full_ = out < start_size + length + trailer_size(length, checksums_);
  }
  for (const ByteSpan part : all) {
    const std::size_t of_part = std::min(out, part.size());
    out -= of_part;
    enqueue(part.subspan(of_part));
  }
  if (queued() == 0) empty_queue();
  if (std::exchange(corked_, corked) && !corked) push_locked(&dropped);
  update();
  return true;
}

bool FrameWriter::send_body(std::uint64_t tag, std::span<const ByteSpan> parts, std::uint64_t size,
                            std::shared_ptr<const void> keep) {
  Dropped of_last;
  Dropped of_this;
  const std::lock_guard lock(mutex_);
  if (has_body()) push_locked(&of_last);
  if (has_body() || ended()) {
    if (has_body()) refusals_.add();
    update();
    return false;
  }
  make_room(kControlBytes + kHeaderBytes);
  parts_.reserve(parts.size() + 1);
  const auto in_file = [](ByteSpan part) { return device::in_mapped_file(part.data()); };
  if (touches_memory_ && size > 0 && std::ranges::any_of(parts, in_file)) {
    copy_ = std::make_unique<PieceBuffer>(static_cast<std::size_t>(std::min<std::uint64_t>(size, kPiece)));
  }
  queue_control();
  std::array<std::byte, kHeaderBytes> header;
  store(header.data(), {FrameKind::kBody, tag, size}, checksums_);
  enqueue(header);
  parts_.assign(parts.begin(), parts.end());
  trailer_ = {};
  parts_.push_back(ByteSpan(trailer_).first(trailer_size(size, checksums_)));
  part_ = part_offset_ = 0;
  body_size_ = size;
  sum_ = 0;
  sum_part_ = sum_offset_ = summed_ = 0;
  keep_ = std::move(keep);
  keep_body_ = true;
  sent_.fetch_add(1, std::memory_order_release);
  push_locked(&of_this);
  update();
  return true;
}

void FrameWriter::taken(std::uint64_t messages, bool now) {
  taken_.store(messages, std::memory_order_relaxed);
  if (!now) return;
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  if (messages == told_taken_) return;
  tell_taken_ = true;
  push_locked(&dropped);
  update();
}

void FrameWriter::window(std::uint64_t messages, bool now) {
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  window_ = messages;
  if (!now || window_ == told_window_) return;
  tell_taken_ = true;  // kTaken and kWindow are sent together
  push_locked(&dropped);
  update();
}

void FrameWriter::goodbye() {
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  push_locked(&dropped);
  if (queued() > 0 || has_body() || ended()) return;
  std::array<std::byte, kHeaderBytes> header;
  store(header.data(), {FrameKind::kGoodbye, 0, 0}, checksums_);
  make_room(header.size());
  enqueue(header);
  push_locked(&dropped);
  update();
}

bool FrameWriter::push() {
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  push_locked(&dropped);
  update();
  return !pending();
}

/// Writes until nothing is left, or the stream is full, or a limit of one call is reached.
void FrameWriter::push_locked(Dropped* dropped) {
  full_ = false;
  std::size_t budget = kBytesPerCall;
  for (int writes = 0; !ended() && budget > 0 && writes < kWritesPerCall; ++writes) {
    if (tell_taken_ && !has_body()) queue_control();
    if (queued() == 0 && !has_body()) return;
    std::array<iovec, kPartsPerCall> parts;
    std::size_t n = 0;
    std::size_t asked = 0;
    const auto ask = [&](ByteSpan bytes) {
      bytes = bytes.first(std::min(bytes.size(), budget - asked));
      if (bytes.empty()) return;
      parts[n++] = part_of(bytes);
      asked += bytes.size();
    };
    ask(ByteSpan(queue_).subspan(queue_begin_));
    if (has_body()) {
      if (in_pieces() && !prepare_next_piece()) {
        end(EFAULT, dropped);
        return;
      }
      const bool whole = !in_pieces() || sum_part_ == parts_.size();
      std::size_t left = whole ? SIZE_MAX : summed_;
      std::size_t i = part_;
      if (copy_ != nullptr) {
        ask(copy_->content().last(summed_));
        left = whole ? SIZE_MAX : 0;
        i = parts_.size() - 1;  // the trailer
      }
      for (; i < parts_.size() && n < parts.size() && asked < budget && left > 0; ++i) {
        const ByteSpan rest = i == part_ ? parts_[i].subspan(part_offset_) : parts_[i];
        ask(rest.first(std::min(left, rest.size())));
        left -= std::min(left, rest.size());
      }
    }
    IoResult moved{IoResult::State::kBytes};
    if (n > 0) moved = stream_.write(std::span(parts).first(n));
    if (moved.state == IoResult::State::kEnd) end(moved.error, dropped);
    full_ = moved.state != IoResult::State::kBytes || moved.bytes < asked;
    if (moved.state != IoResult::State::kBytes) return;
    budget -= moved.bytes;
    consume(moved.bytes, dropped);
    if (full_) return;
  }
}

/// Continues the checksum and the copy until there is a piece that can be sent. The trailer follows the last piece, and
/// counts as summed once it is made. Returns false if the body isn't readable any more.
bool FrameWriter::prepare_next_piece() {
  if (copy_ == nullptr) {
    sum_in_place();
  } else if (!copy_next()) {
    return false;
  }
  if (sum_part_ == parts_.size() - 1) {
    trailer_ = make_trailer(body_size_, checksums_, sum_);
    sum_part_ = parts_.size();
  }
  return true;
}

void FrameWriter::sum_in_place() noexcept {
  const std::size_t trailer = parts_.size() - 1;
  while (sum_part_ < trailer && summed_ < kPiece) {
    const ByteSpan rest = parts_[sum_part_].subspan(sum_offset_);
    const ByteSpan piece = rest.first(std::min(rest.size(), kPiece - summed_));
    sum_ = crc32c(sum_, piece);
    summed_ += piece.size();
    sum_offset_ += piece.size();
    if (piece.size() < rest.size()) return;
    ++sum_part_;
    sum_offset_ = 0;
  }
}

/// Copies the next piece once the previous one was sent.
bool FrameWriter::copy_next() {
  if (summed_ > 0) return true;
  const std::size_t trailer = parts_.size() - 1;
  std::array<iovec, kPartsPerCall> pieces;
  std::size_t n = 0;
  std::size_t left = copy_->size();
  std::size_t part = sum_part_;
  std::size_t offset = sum_offset_;
  while (part < trailer && n < pieces.size() && left > 0) {
    const ByteSpan rest = parts_[part].subspan(offset);
    const ByteSpan piece = rest.first(std::min(rest.size(), left));
    pieces[n++] = part_of(piece);
    left -= piece.size();
    offset += piece.size();
    if (piece.size() < rest.size()) break;
    ++part;
    offset = 0;
  }
  if (!copy_->fill(std::span(pieces).first(n))) return false;
  sum_part_ = part;
  sum_offset_ = offset;
  if (checksums_ == Checksums::kEach) sum_ = crc32c(sum_, copy_->content());
  summed_ = copy_->content().size();
  return true;
}

/// Removes `bytes` bytes that the stream has accepted from the data that push_locked() offered.
void FrameWriter::consume(std::size_t bytes, Dropped* dropped) {
  pushed_.fetch_add(bytes, std::memory_order_relaxed);
  const std::size_t of_queue = std::min(bytes, queued());
  queue_begin_ += of_queue;
  bytes -= of_queue;
  if (queued() == 0) empty_queue();
  if (!has_body() || queued() > 0) return;
  summed_ -= std::min(summed_, bytes);
  while (part_ < parts_.size()) {
    const std::size_t left = parts_[part_].size() - part_offset_;
    const std::size_t of_part = std::min(bytes, left);
    part_offset_ += of_part;
    bytes -= of_part;
    if (of_part < left) return;
    ++part_;
    part_offset_ = 0;
  }
  parts_.clear();
  copy_.reset();
  keep_body_ = false;
  *dropped = std::move(keep_);
}

/// Writes the control frames that are due: up to kControlBytes. Returns how many bytes they have.
std::size_t FrameWriter::add_control(std::byte* to) {
  std::size_t size = 0;
  const std::uint64_t taken = taken_.load(std::memory_order_relaxed);
  if (taken != told_taken_) {
    store(to, {FrameKind::kTaken, taken, 0}, checksums_);
    told_taken_ = taken;
    size += kHeaderBytes;
  }
  if (window_ != told_window_) {
    store(to + size, {FrameKind::kWindow, window_, 0}, checksums_);
    told_window_ = window_;
    size += kHeaderBytes;
  }
  tell_taken_ = false;
  return size;
}

void FrameWriter::queue_control() {
  make_room(kControlBytes);
  std::array<std::byte, kControlBytes> frames;
  enqueue(ByteSpan(frames).first(add_control(frames.data())));
}

/// Reserves capacity, so that enqueue() never allocates. Called before any part of a frame counts as sent, so that
/// nothing was sent if this throws.
void FrameWriter::make_room(std::size_t bytes) {
  if (queue_.capacity() - queue_.size() >= bytes) return;
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(queue_begin_));
  queue_begin_ = 0;
  const std::size_t needed = queue_.size() + bytes;
  if (needed > queue_.capacity()) queue_.reserve(std::max(needed, 2 * queue_.capacity()));
}

/// Appends bytes; make_room() has reserved the capacity.
void FrameWriter::enqueue(ByteSpan bytes) noexcept { queue_.insert(queue_.end(), bytes.begin(), bytes.end()); }

void FrameWriter::empty_queue() noexcept {
  queue_.clear();
  queue_begin_ = 0;
  if (queue_.capacity() > kKeptQueue) queue_.shrink_to_fit();
}

/// Drops the rest, if there is any: it can't be sent any more.
void FrameWriter::end(int error, Dropped* dropped) noexcept {
  if (error == EFAULT) source_lost_.store(true, std::memory_order_release);
  copy_.reset();
  ended_.store(true, std::memory_order_release);
  if (has_body()) *dropped = std::move(keep_);
}

void FrameWriter::update() noexcept {
  const bool pending = !ended() && (queued() > 0 || has_body());
  pending_.store(pending, std::memory_order_release);
  more_.store(pending && !full_, std::memory_order_relaxed);
  room_.store(ended() || (!has_body() && queued() <= queue_limit_ / 2), std::memory_order_relaxed);
}

}  // namespace crossdock::transport::net
