#include "transport/tls.h"

#include "transport/net/tls/context.h"
#include "transport/net/tls/system_roots.h"

namespace crossdock::transport {

void check_tls(const TlsOptions& options, bool server) {
  using net::tls::End;
  const net::tls::Context checked(server ? End::kServer : End::kClient, options);
}

void check_tls_texts(const TlsOptions& options, const TlsNames& names) { net::tls::check_texts(options, names); }

std::string system_roots() { return net::tls::system_roots(); }

}  // namespace crossdock::transport
