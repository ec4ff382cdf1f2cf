#include "system_roots.h"

#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "crossdock/core/error.h"
#include "pem.h"

namespace crossdock::transport::net::tls {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHashDigits = 8;

/// Returns the place that the environment names, or else the default one. Like OpenSSL, ignores the environment of a
/// process with more rights than its user has.
std::string place(const char* variable, const char* otherwise) {
  const char* const named = ::secure_getenv(variable);
  return named != nullptr ? named : otherwise;
}

/// Returns the certificates of a file, or nothing if it can't be read: OpenSSL takes all of a file or nothing, too.
std::vector<CertificatePtr> certificates_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  try {
    return read_certificates(text, "a root");
  } catch (const InvalidArgumentError&) {
    return {};
  }
}

/// Whether a file has the name of the first one of a subject: its hash, a dot and 0.
bool is_first(std::string_view name) noexcept {
  return name.size() == kHashDigits + 2 && name.ends_with(".0") &&
         name.find_first_not_of("0123456789abcdef") == kHashDigits;
}

std::string hash_of(X509* certificate) {
  std::array<char, kHashDigits + 1> text{};
  std::snprintf(text.data(), text.size(), "%08lx", ::X509_subject_name_hash(certificate) & 0xffffffffUL);
  return text.data();
}

class Roots {
 public:
  void add(X509* certificate) {
    const std::string one = to_pem(certificate);
    if (known_.insert(one).second) text_ += one;
  }
  void add_file(const std::string& file) {
    for (const CertificatePtr& one : certificates_of(file)) add(one.get());
  }
  void add_directory(const std::string& directory) {
    std::error_code error;
    for (fs::directory_iterator it(directory, error); !error && it != fs::directory_iterator(); it.increment(error)) {
      const std::string name = it->path().filename();
      if (is_first(name)) add_subjects(directory, name.substr(0, kHashDigits));
    }
  }
  const std::string& text() const noexcept { return text_; }

 private:
  /// Like OpenSSL, finds the certificates of a subject in the files HASH.0, HASH.1 and so on, to the first gap.
  void add_subjects(const fs::path& directory, const std::string& hash) {
    for (int number = 0;; ++number) {
      const std::vector<CertificatePtr> found = certificates_of(directory / (hash + "." + std::to_string(number)));
      if (found.empty()) return;
      for (const CertificatePtr& one : found) {
        if (hash_of(one.get()) == hash) add(one.get());
      }
    }
  }

  std::set<std::string> known_;
  std::string text_;
};

}  // namespace

std::string system_bundle() {
#ifdef CROSSDOCK_STATIC_OPENSSL
  // Each distribution keeps all that it trusts in one file.
  constexpr const char* kBundles[] = {
      "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch
      "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Fedora, RHEL
      "/etc/pki/tls/certs/ca-bundle.crt",                   // older ones of these
      "/etc/ssl/ca-bundle.pem",                             // openSUSE
  };
  const bool named = ::secure_getenv(::X509_get_default_cert_file_env()) != nullptr ||
                     ::secure_getenv(::X509_get_default_cert_dir_env()) != nullptr;
  std::error_code error;
  if (named || fs::exists(::X509_get_default_cert_file(), error) || fs::exists(::X509_get_default_cert_dir(), error)) {
    return {};
  }
  for (const char* const bundle : kBundles) {
    if (fs::exists(bundle, error)) return bundle;
  }
#endif
  return {};
}

std::string system_roots() {
  const std::string file = place(::X509_get_default_cert_file_env(), ::X509_get_default_cert_file());
  const std::string directories = place(::X509_get_default_cert_dir_env(), ::X509_get_default_cert_dir());
  Roots roots;
  roots.add_file(file);
  for (std::size_t begin = 0; begin <= directories.size();) {
    const std::size_t end = std::min(directories.find(':', begin), directories.size());
    if (end > begin) roots.add_directory(directories.substr(begin, end - begin));
    begin = end + 1;
  }
  if (const std::string bundle = system_bundle(); roots.text().empty() && !bundle.empty()) roots.add_file(bundle);
  if (roots.text().empty()) {
    throw InvalidArgumentError("this system has no trusted issuers: there is no certificate in the file '" + file +
                               "' (" + ::X509_get_default_cert_file_env() + ") and in the directory '" + directories +
                               "' (" + ::X509_get_default_cert_dir_env() +
                               "); give the issuer's certificate as the TLS roots (in Python TLS(roots=), of the "
                               "command --tls-roots)");
  }
  return roots.text();
}

}  // namespace crossdock::transport::net::tls
