#pragma once

// Result<T>: a value, or an errno with one sentence that says which limit or object is meant and
// what to do. For what the user or the system refuses; verbs return errno, so it maps one to one.
// Shaped like std::expected, which gcc 12 has only in C++23. Other types of errors have such a code
// and a message, too.

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace uroce {

struct Error {
  int code = 0;         // an errno value, never 0
  std::string message;  // one sentence for the user, without a full stop or a newline
};

template <typename T, typename E = Error>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : content_(std::in_place_index<0>, std::move(value)) {
  }  // NOLINT(google-explicit-constructor)
  Result(E error)
      : content_(std::in_place_index<1>, std::move(error)) {  // NOLINT(google-explicit-constructor)
    UROCE_CHECK(std::get<1>(content_).code != 0);
  }

  [[nodiscard]] bool has_value() const { return content_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // REQUIRES: has_value()
  T& value() {
    UROCE_CHECK(has_value());
    return std::get<0>(content_);
  }
  const T& value() const {
    UROCE_CHECK(has_value());
    return std::get<0>(content_);
  }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !has_value()
  [[nodiscard]] const E& error() const {
    UROCE_CHECK(!has_value());
    return std::get<1>(content_);
  }

 private:
  std::variant<T, E> content_;
};

// A Result without a value: success, or an error.
struct Done {};
using Status = Result<Done>;
inline Status ok() { return Done{}; }

}  // namespace uroce
