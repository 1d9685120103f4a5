#include "apps/top/screen.h"

#include <curses.h>
#include <term.h>
#include <unistd.h>

#include <algorithm>

namespace uroce::top {

bool Screen::possible() {
  int error = 0;
  return ::isatty(STDOUT_FILENO) == 1 && ::isatty(STDIN_FILENO) == 1 &&
         ::setupterm(nullptr, STDOUT_FILENO, &error) == OK && cursor_address != nullptr;
}

Screen::Screen() {
  ::initscr();
  ::cbreak();
  ::noecho();
  ::curs_set(0);
  ::keypad(stdscr, TRUE);
}

Screen::~Screen() { ::endwin(); }

void Screen::show(const std::vector<std::string>& text, const std::string& hint) {
  const int height = getmaxy(stdscr);
  const int width = getmaxx(stdscr);
  ::werase(stdscr);
  const auto count =
      std::min<std::size_t>(text.size(), static_cast<std::size_t>(std::max(0, height - 1)));
  for (std::size_t i = 0; i < count; ++i) {
    mvaddnstr(static_cast<int>(i), 0, text[i].c_str(), width);
  }
  ::wattr_on(stdscr, A_REVERSE, nullptr);
  mvaddnstr(height - 1, 0, hint.c_str(), width);
  ::wattr_off(stdscr, A_REVERSE, nullptr);
  ::wrefresh(stdscr);
}

int Screen::key(int milliseconds) {
  ::wtimeout(stdscr, milliseconds);
  const int pressed = ::wgetch(stdscr);
  return pressed == ERR ? 0 : pressed == KEY_RESIZE ? -1 : pressed;
}

}  // namespace uroce::top
