#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "core/bytes.h"

struct bio_method_st;
struct bio_st;

namespace crossdock::transport::net::tls {

/// The encrypted bytes between OpenSSL and a socket, in both directions, in memory of a fixed size. OpenSSL sees them
/// as a BIO, so that none of its calls uses the socket: OpenSSL's own BIO would raise SIGPIPE.
///
/// Not thread-safe. The members of `out` change under the lock of the SSL object, those of `in` on the thread that
/// reads.
class Wire {
 public:
  static constexpr std::size_t kInput = 64 << 10;
  static constexpr std::size_t kOutput = 80 << 10;

  Wire();
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// Returns a new BIO of these bytes, which must not outlive this. The caller owns it. Throws ResourceError.
  bio_st* make_bio();

  // --- from the socket to OpenSSL ---
  /// Memory for the next bytes of the socket. There must be none left of the last ones.
  std::span<std::byte> room() noexcept { return {in_.get(), kInput}; }
  void filled(std::size_t bytes) noexcept {
    in_begin_ = 0;
    in_end_ = bytes;
  }
  /// Received bytes that OpenSSL hasn't taken yet.
  ByteSpan input() const noexcept { return {in_.get() + in_begin_, in_end_ - in_begin_}; }
  /// Whether OpenSSL may take them: it is called on the thread that reads.
  void set_readable(bool on) noexcept { readable_ = on; }

  // --- from OpenSSL to the socket ---
  /// Bytes that were not sent yet. They stay where they are while OpenSSL appends others.
  ByteSpan output() const noexcept { return {out_.get() + out_begin_, out_end_ - out_begin_}; }
  void sent(std::size_t bytes) noexcept {
    out_begin_ += bytes;
    if (out_begin_ == out_end_) out_begin_ = out_end_ = 0;
  }
  /// How many more bytes OpenSSL can append.
  std::size_t output_room() const noexcept { return kOutput - out_end_; }

 private:
  struct Callbacks;

  const std::unique_ptr<bio_method_st, void (*)(bio_method_st*)> method_;
  const std::unique_ptr<std::byte[]> in_;
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
  bool readable_ = true;
  const std::unique_ptr<std::byte[]> out_;
  std::size_t out_begin_ = 0;
  std::size_t out_end_ = 0;
};

}  // namespace crossdock::transport::net::tls
