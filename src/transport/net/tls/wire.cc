#include "wire.h"

#include <openssl/bio.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "crossdock/core/error.h"

namespace crossdock::transport::net::tls {

/// The functions that OpenSSL calls. Nothing may be thrown through it.
struct Wire::Callbacks {
  static Wire& wire_of(BIO* bio) noexcept { return *static_cast<Wire*>(::BIO_get_data(bio)); }

  static int read(BIO* bio, char* to, std::size_t size, std::size_t* got) noexcept {
    Wire& wire = wire_of(bio);
    ::BIO_clear_retry_flags(bio);
    *got = 0;
    if (!wire.readable_ || wire.in_begin_ == wire.in_end_) {
      ::BIO_set_retry_read(bio);
      return 0;
    }
    *got = std::min(size, wire.in_end_ - wire.in_begin_);
    std::memcpy(to, wire.in_.get() + wire.in_begin_, *got);
    wire.in_begin_ += *got;
    return 1;
  }

  static int write(BIO* bio, const char* from, std::size_t size, std::size_t* put) noexcept {
    Wire& wire = wire_of(bio);
    ::BIO_clear_retry_flags(bio);
    *put = std::min(size, wire.output_room());
    if (*put == 0 && size > 0) {
      ::BIO_set_retry_write(bio);
      return 0;
    }
    std::memcpy(wire.out_.get() + wire.out_end_, from, *put);
    wire.out_end_ += *put;
    return 1;
  }

  static long control(BIO*, int command, long, void*) noexcept { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static bio_method_st* make_method() {
    BIO_METHOD* const method = ::BIO_meth_new(BIO_TYPE_SOURCE_SINK, "crossdock");
    if (method == nullptr) throw std::bad_alloc();
    ::BIO_meth_set_read_ex(method, read);
    ::BIO_meth_set_write_ex(method, write);
    ::BIO_meth_set_ctrl(method, control);
    return method;
  }
};

Wire::Wire()
    : method_(Callbacks::make_method(), ::BIO_meth_free), in_(new std::byte[kInput]), out_(new std::byte[kOutput]) {}

Wire::~Wire() = default;

bio_st* Wire::make_bio() {
  BIO* const bio = ::BIO_new(method_.get());
  if (bio == nullptr) throw ResourceError("OpenSSL has no memory for a connection");
  ::BIO_set_data(bio, this);
  ::BIO_set_init(bio, 1);
  return bio;
}

}  // namespace crossdock::transport::net::tls
