# OpenSSL's libcrypto, for the tokens of the tcp transport; see docs/decisions/0007-tokens-with-libcrypto.md.
find_package(OpenSSL 3.0 QUIET COMPONENTS Crypto)
if(NOT OpenSSL_FOUND)
  message(FATAL_ERROR "Crossdock needs OpenSSL 3.0 or later, its libcrypto and headers, to build. "
                      "On Debian and Ubuntu: apt-get install libssl-dev")
endif()
