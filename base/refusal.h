#pragma once

// Why something is refused to a program: an errno value and a sentence. Those of base/result.h are
// on the heap; these have their own room, so that a program that has used up its memory is refused
// like any other.

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <string_view>

#include "base/result.h"

namespace uroce {

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
  int code = 0;  // an errno value, not 0 in an OrRefusal
  Sentence message;
};

template <typename T>
using OrRefusal = Result<T, Refusal>;
using DoneOrRefusal = OrRefusal<Done>;

}  // namespace uroce
