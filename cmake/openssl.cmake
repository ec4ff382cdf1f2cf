# OpenSSL's libcrypto, for the tokens of the transports over a network, and its libssl, for tcp+tls; see
# docs/decisions/0007-tokens-with-libcrypto.md and docs/decisions/0040-tls-below-the-records.md.
option(CROSSDOCK_STATIC_OPENSSL "Link OpenSSL as static libraries (as wheels do)" OFF)

if(CROSSDOCK_STATIC_OPENSSL)
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()
find_package(OpenSSL 3.0 QUIET COMPONENTS Crypto SSL)
if(NOT OpenSSL_FOUND)
  message(FATAL_ERROR "Crossdock needs OpenSSL 3.0 or later, its libcrypto, libssl and headers, to build. "
                      "On Debian and Ubuntu: apt-get install libssl-dev")
endif()
