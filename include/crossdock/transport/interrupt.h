#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "crossdock/core/function.h"

namespace crossdock::transport {

/// A std::stop_token, whose header takes long to compile and isn't included here.
template <class T>
concept StopToken = requires(const T& token) {
  { token.stop_requested() } -> std::same_as<bool>;
  { token.stop_possible() } -> std::same_as<bool>;
};

/// Asks whether a blocking call should end: a function, or a std::stop_token. Calls take one wherever they may wait:
/// `client.get("weather", {}, token)`.
///
/// A blocking call asks from time to time, at least ten times a second, and after every signal, with no lock held. If
/// the answer is true, it throws InterruptedError. The function may call what is thread-safe, but nothing of a Reader
/// or another object for one thread at a time whose call asks it: that one is in use. Copies share the function. Empty
/// by default: nothing is asked.
class InterruptHook {
 public:
  /// Asks nothing.
  InterruptHook() noexcept = default;
  // Implicit: it stands where a function or a token is expected. NOLINTBEGIN(google-explicit-constructor)
  /// Asks nothing.
  InterruptHook(std::nullptr_t) noexcept {}
  /// Asks a token, of which it keeps a copy. A token that can't be stopped is as good as none.
  template <StopToken T>
  InterruptHook(T token) {
    if (token.stop_possible()) ask_ = [token = std::move(token)] { return token.stop_requested(); };
  }
  /// Asks a function, which returns true to end the call. It is called on the thread that waits, and may throw: the
  /// call then ends with that exception.
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, InterruptHook> && std::is_invocable_r_v<bool, F&> &&
           std::constructible_from<std::function<bool()>, F>) InterruptHook(F&& ask)
      : ask_(std::forward<F>(ask)) {}
  // NOLINTEND(google-explicit-constructor)

  /// Returns false if nothing is asked.
  explicit operator bool() const noexcept { return ask_ != nullptr; }
  /// Asks. Returns false if nothing is asked: a hook that becomes another kind of function, which isn't empty then,
  /// ends no call.
  bool operator()() const { return ask_ != nullptr && ask_(); }

 private:
  std::function<bool()> ask_;
};

}  // namespace crossdock::transport
