#pragma once

// Why memory isn't shared: an errno value and a sentence. base/result.h has the same, but with its
// sentences on the heap. These have their own room, so that a program that has used up its memory
// is refused like any other.

#include <cstdarg>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/result.h"

namespace uroce::shim {

class Sentence {
 public:
  Sentence() = default;
  Sentence(const char* text) {  // NOLINT(google-explicit-constructor): for literals
    std::snprintf(text_, sizeof(text_), "%s", text);
  }
  // As printf(3).
  [[gnu::format(printf, 1, 2)]] static Sentence composed(const char* format, ...) {
    Sentence sentence;
    va_list values;
    va_start(values, format);
    std::vsnprintf(sentence.text_, sizeof(sentence.text_), format, values);
    va_end(values);
    return sentence;
  }

  [[nodiscard]] const char* c_str() const { return text_; }
  [[nodiscard]] std::string_view view() const { return text_; }
  [[nodiscard]] bool empty() const { return text_[0] == '\0'; }

 private:
  static constexpr std::size_t kBytes = 384;  // what is longer is cut
  char text_[kBytes] = {};
};

struct Refusal {
  int code = 0;  // an errno value
  Sentence message;
};

// A value, or why there is none.
template <typename T>
class [[nodiscard]] OrRefusal {
 public:
  OrRefusal(T value)  // NOLINT(google-explicit-constructor)
      : value_(std::move(value)) {}
  OrRefusal(const Refusal& refusal)  // NOLINT(google-explicit-constructor)
      : refusal_(refusal) {}

  explicit operator bool() const { return value_.has_value(); }
  // REQUIRES: there is a value.
  T& operator*() { return *value_; }
  T* operator->() {
    UROCE_CHECK(value_.has_value());
    return &*value_;
  }
  const T* operator->() const {
    UROCE_CHECK(value_.has_value());
    return &*value_;
  }
  // REQUIRES: there is none.
  [[nodiscard]] const Refusal& error() const {
    UROCE_CHECK(!value_.has_value());
    return refusal_;
  }

 private:
  std::optional<T> value_;
  Refusal refusal_;
};

using DoneOrRefusal = OrRefusal<Done>;

}  // namespace uroce::shim
