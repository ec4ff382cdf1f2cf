#pragma once

#include <memory>
#include <string>
#include <vector>

namespace crossdock {

/// A shared library opened at run time. Closed with its last owner. Thread-safe.
class Library {
 public:
  /// Opens the first of `candidates` (names or paths) that the loader accepts. Returns null if it accepts none; then
  /// `*tried` has a line for each: the candidate, and the loader's reason.
  static std::shared_ptr<Library> open(const std::vector<std::string>& candidates, std::vector<std::string>* tried);
  /// Returns the library of this name that the process has loaded already, or null.
  static std::shared_ptr<Library> find_loaded(const std::string& name);

  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();

  /// Returns the candidate that was opened.
  const std::string& name() const noexcept { return name_; }
  /// Returns the symbol's address, or null.
  void* symbol(const char* name) const noexcept;
  /// Returns the address of this version of the symbol, or null.
  void* symbol(const char* name, const char* version) const noexcept;

 private:
  Library(void* handle, std::string name) noexcept;
  void* handle_;
  std::string name_;
};

}  // namespace crossdock
