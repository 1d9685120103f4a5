#pragma once

// A terminal that shows lines, by ncurses.

#include <string>
#include <vector>

namespace uroce::top {

class Screen {
 public:
  // False: this terminal can't be written all over (TERM is unknown or dumb).
  [[nodiscard]] static bool possible();

  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // As many as fit; the last line of the terminal has `hint`.
  void show(const std::vector<std::string>& text, const std::string& hint);
  // A key that was pressed; 0: none in this time. A new size of the terminal is no key, but comes
  // back at once, as -1.
  [[nodiscard]] int key(int milliseconds);
};

}  // namespace uroce::top
