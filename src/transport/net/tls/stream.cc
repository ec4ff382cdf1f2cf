#include "stream.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "core/text.h"
#include "crossdock/core/error.h"
#include "errors.h"
#include "transport/net/records.h"

namespace crossdock::transport::net::tls {
namespace {

constexpr std::size_t kRecord = SSL3_RT_MAX_PLAIN_LENGTH;
/// Room in the output for one record, and for a change of keys before it.
constexpr std::size_t kRecordRoom = kRecord + 256;
/// Room that is kept for what TLS itself has to say while the socket is full: answers to changes of keys, and alerts.
constexpr std::size_t kControlRoom = 4 << 10;
/// Limits of one call, so that others get their turn.
constexpr int kFillsPerStep = 4;    // of the handshake
constexpr int kOthersPerRead = 16;  // records without bytes for the caller

constexpr std::string_view kProtocol = "crossdock";
constexpr std::string_view kBindingLabel = "EXPORTER-Channel-Binding";

bool is_address(const std::string& name) noexcept {
  in6_addr parsed;
  return ::inet_pton(AF_INET, name.c_str(), &parsed) == 1 || ::inet_pton(AF_INET6, name.c_str(), &parsed) == 1;
}

}  // namespace

/// The bytes that a caller of write() offers, from a position on.
class Stream::Offer {
 public:
  explicit Offer(std::span<const iovec> parts) noexcept : parts_(parts) { skip(0); }

  bool empty() const noexcept { return parts_.empty(); }
  void skip(std::size_t bytes) noexcept {
    offset_ += bytes;
    while (!parts_.empty() && offset_ >= parts_.front().iov_len) {
      offset_ -= parts_.front().iov_len;
      parts_ = parts_.subspan(1);
    }
  }
  /// Returns the bytes of the next record: in place if they are long enough, or gathered in `room`.
  ByteSpan next(std::array<std::byte, kRecord>& room) const noexcept {
    if (const ByteSpan here = part(0); here.size() >= kRecord || parts_.size() == 1) {
      return here.first(std::min(here.size(), kRecord));
    }
    std::size_t size = 0;
    for (std::size_t i = 0; i < parts_.size() && size < kRecord; ++i) {
      const ByteSpan here = part(i).first(std::min(part(i).size(), kRecord - size));
      if (!here.empty()) std::memcpy(room.data() + size, here.data(), here.size());
      size += here.size();
    }
    return ByteSpan(room).first(size);
  }

 private:
  ByteSpan part(std::size_t i) const noexcept {
    const ByteSpan whole(static_cast<const std::byte*>(parts_[i].iov_base), parts_[i].iov_len);
    return i == 0 ? whole.subspan(offset_) : whole;
  }

  std::span<const iovec> parts_;
  std::size_t offset_ = 0;  // in the first part
};

void Stream::FreeSession::operator()(ssl_st* session) const noexcept { ::SSL_free(session); }

Stream::Stream(UniqueFd socket, std::string where, std::shared_ptr<const Context> context, std::string server_name,
               std::uint64_t records_per_key)
    : socket_(std::move(socket), where),
      where_(std::move(where)),
      context_(std::move(context)),
      name_(std::move(server_name)),
      records_per_key_(records_per_key),
      session_(context_->make_session()) {
  BIO* const bio = wire_.make_bio();
  ::SSL_set_bio(session_.get(), bio, bio);
  if (context_->end() == End::kServer) {
    ::SSL_set_accept_state(session_.get());
  } else {
    require_name();
    ::SSL_set_connect_state(session_.get());
  }
}

Stream::~Stream() = default;

/// Sets the name that the server's certificate must have, and tells it to the server if it isn't an address.
void Stream::require_name() {
  ::ERR_clear_error();
  X509_VERIFY_PARAM* const rules = ::SSL_get0_param(session_.get());
  ::X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool set = is_address(name_)
                       ? ::X509_VERIFY_PARAM_set1_ip_asc(rules, name_.c_str()) == 1
                       : !name_.empty() && ::X509_VERIFY_PARAM_set1_host(rules, name_.data(), name_.size()) == 1 &&
                             ::SSL_ctrl(session_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                                        const_cast<char*>(name_.c_str())) == 1;  // SNI
  if (!set)
    throw InvalidArgumentError("no certificate can be checked for the name '" + excerpt(name_) +
                               "': " + take_reasons());
}

// --- the handshake ---

Stream::State Stream::handshake() {
  for (int fills = 0;;) {
    int result = 0;
    int error = SSL_ERROR_NONE;
    if (knows_tls_ || context_->end() == End::kClient) {
      ::ERR_clear_error();
      result = ::SSL_do_handshake(session_.get());
      error = ::SSL_get_error(session_.get(), result);
    } else {
      error = SSL_ERROR_WANT_READ;
    }
    const IoResult sent = send_output();
    if (result == 1 && sent.state == IoResult::State::kBytes) {
      require_protocol();
      return State::kComplete;
    }
    if (result != 1 && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
      throw_handshake_failure(session_.get(), *context_, where_, name_);
    }
    if (sent.state == IoResult::State::kEnd) return State::kEnd;
    if (sent.state == IoResult::State::kWouldBlock) return State::kWaiting;
    if (error == SSL_ERROR_WANT_WRITE) continue;
    if (fills++ == kFillsPerStep) return State::kWaiting;  // the rest is still in the socket
    const IoResult got = fill();
    if (got.state == IoResult::State::kEnd) return State::kEnd;
    if (got.state == IoResult::State::kWouldBlock) return State::kWaiting;
    // A record of TLS begins with its type, which is none of the letters that a record of this protocol begins with.
    if (!std::exchange(knows_tls_, true) && begins_record(wire_.input())) return State::kPlain;
  }
}

void Stream::require_protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  ::SSL_get0_alpn_selected(session_.get(), &name, &size);
  if (std::string_view(reinterpret_cast<const char*>(name), size) == kProtocol) return;
  throw HandshakeError(where_ +
                       " speaks TLS, but doesn't agree on Crossdock's protocol inside it (ALPN \"crossdock\")");
}

Stream::Binding Stream::binding() const {
  Binding bytes{};
  if (::SSL_export_keying_material(session_.get(), reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(),
                                   kBindingLabel.data(), kBindingLabel.size(), nullptr, 0, 1) != 1) {
    throw SystemError("OpenSSL can't bind a token to the connection with " + where_ + ": " + take_reasons());
  }
  return bytes;
}

// --- reading ---

/// Receives the socket's next bytes, once OpenSSL has taken the last ones.
IoResult Stream::fill() {
  const std::span<std::byte> room = wire_.room();
  const iovec all{room.data(), room.size()};
  const IoResult got = socket_.read({&all, 1});
  if (got.state == IoResult::State::kBytes) wire_.filled(got.bytes);
  return got;
}

IoResult Stream::read(std::span<const iovec> parts) {
  std::size_t got = 0;
  int others = 0;
  const auto stop = [&](bool more) {
    return IoResult{got > 0 ? IoResult::State::kBytes : IoResult::State::kWouldBlock, got, 0, more};
  };
  const auto end = [&](const IoResult& how) {
    ended_ = how;
    return got > 0 ? stop(true) : how;
  };
  if (ended_) return *ended_;
  for (const iovec& part : parts) {
    for (std::size_t at = 0; at < part.iov_len;) {
      std::size_t bytes = 0;
      switch (decrypt(static_cast<std::byte*>(part.iov_base) + at, part.iov_len - at, &bytes)) {
        case Decrypted::kBytes:
          at += bytes;
          got += bytes;
          break;
        case Decrypted::kNothing:
          if (++others == kOthersPerRead) return stop(true);
          break;
        case Decrypted::kClosed: return end({IoResult::State::kEnd});
        case Decrypted::kStarved: {
          const IoResult filled = fill();
          if (filled.state == IoResult::State::kWouldBlock) return stop(false);
          if (filled.state == IoResult::State::kEnd) return end(filled);
          break;
        }
      }
    }
  }
  return stop(holds_input());
}

/// Decrypts the next record, if its bytes are here, and what of it fits.
Stream::Decrypted Stream::decrypt(std::byte* to, std::size_t size, std::size_t* got) {
  bool control = false;
  bool failed = false;
  Decrypted result = Decrypted::kBytes;
  {
    const std::lock_guard lock(session_mutex_);
    ::ERR_clear_error();
    const std::size_t before = wire_.output().size();
    wire_.set_readable(true);
    const int done = ::SSL_read_ex(session_.get(), to, size, got);
    wire_.set_readable(false);
    control = wire_.output().size() > before;
    if (done != 1) {
      switch (::SSL_get_error(session_.get(), done)) {
        case SSL_ERROR_WANT_READ: result = wire_.input().empty() ? Decrypted::kStarved : Decrypted::kNothing; break;
        case SSL_ERROR_ZERO_RETURN: result = Decrypted::kClosed; break;
        case SSL_ERROR_WANT_WRITE:
          throw ProtocolError(where_ + " requests one change of keys after the other, and doesn't read the answers");
        default: failed = true; break;
      }
    }
  }
  if (control) send_control();
  if (failed) throw_read_failure(where_);
  return result;
}

bool Stream::holds_input() const noexcept {
  if (!wire_.input().empty()) return true;
  const std::lock_guard lock(session_mutex_);
  return ::SSL_pending(session_.get()) > 0;
}

/// Sends what TLS itself has to say, unless another thread writes: that one sends it, too.
void Stream::send_control() noexcept {
  const std::unique_lock sending(send_mutex_, std::try_to_lock);
  if (!sending) return;
  try {
    send_output();
  } catch (const std::exception&) {
    // The next write finds the same error.
  }
}

// --- writing ---

IoResult Stream::write(std::span<const iovec> parts) {
  const std::lock_guard sending(send_mutex_);
  Offer offer(parts);
  std::size_t written = 0;
  for (;;) {
    const IoResult sent = send_output();
    if (sent.state == IoResult::State::kEnd) return sent;
    if (sent.state == IoResult::State::kWouldBlock) {
      return written > 0 ? IoResult{IoResult::State::kBytes, written} : IoResult{};
    }
    // These were encrypted by an earlier call, whose caller offers them again, or in the last turn.
    written += encrypted_;
    offer.skip(std::exchange(encrypted_, 0));
    if (offer.empty()) return {IoResult::State::kBytes, written};
    Offer next = offer;
    if (!encrypt(&next)) return {IoResult::State::kEnd};
  }
}

/// Encrypts as many records as the output has room for. Returns false if the connection has ended.
bool Stream::encrypt(Offer* offer) {
  std::array<std::byte, kRecord> gathered;
  while (!offer->empty() && wire_.output_room() >= kRecordRoom + kControlRoom) {
    const ByteSpan bytes = offer->next(gathered);
    if (!encrypt_record(bytes)) return false;
    encrypted_ += bytes.size();
    offer->skip(bytes.size());
  }
  return true;
}

bool Stream::encrypt_record(ByteSpan bytes) {
  const std::lock_guard lock(session_mutex_);
  if (broken_) return false;
  ::ERR_clear_error();
  if (++records_ >= records_per_key_) {
    records_ = 0;
    // Sent with the next record. Fails only if the connection has ended.
    broken_ = ::SSL_key_update(session_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1;
  }
  std::size_t written = 0;
  broken_ = broken_ || ::SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &written) != 1;
  ::ERR_clear_error();
  return !broken_ && written == bytes.size();
}

/// Sends the output. Returns kBytes if nothing is left of it. The caller has send_mutex_, or is alone.
IoResult Stream::send_output() {
  for (;;) {
    ByteSpan left;
    {
      const std::lock_guard lock(session_mutex_);
      left = wire_.output();
    }
    if (left.empty()) return {IoResult::State::kBytes};
    const iovec all{const_cast<std::byte*>(left.data()), left.size()};
    const IoResult sent = socket_.write({&all, 1});
    if (sent.state != IoResult::State::kBytes) return sent;
    const std::lock_guard lock(session_mutex_);
    wire_.sent(sent.bytes);
  }
}

void Stream::finish() noexcept {
  const std::lock_guard sending(send_mutex_);
  {
    const std::lock_guard lock(session_mutex_);
    ::ERR_clear_error();
    // After an error it can say nothing.
    if (!broken_ && ::SSL_is_init_finished(session_.get()) == 1) ::SSL_shutdown(session_.get());
    ::ERR_clear_error();
  }
  try {
    send_output();
  } catch (const std::exception&) {
    // There is no peer left to tell.
  }
}

}  // namespace crossdock::transport::net::tls
