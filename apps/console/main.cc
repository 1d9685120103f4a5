// uroce-console: makes queue pairs and regions with chosen numbers and looks at them, for people
// and scripts that debug what goes over the wire. Reads commands, answers key=value lines, then
// prints its prompt. `uroced --console` starts it.

#include <cstdio>
#include <iostream>
#include <string>

#include "apps/console/commands.h"

namespace {

constexpr const char* kPrompt = "uroce> ";
constexpr std::size_t kLineMax = 262'144;  // bytes of one command

std::string answer(uroce::console::Objects& objects, const std::string& line) {
  using namespace uroce::console;
  if (line.size() > kLineMax) {
    return "error=a command has at most " + std::to_string(kLineMax) + " bytes\n";
  }
  Words words(line);
  if (words.empty()) {
    return {};
  }
  const std::string verb = words.next_name();
  if (verb == "help") {
    return help_text();
  }
  const Command* const command = find_command(verb);
  if (command == nullptr) {
    return "error=there is no command `" + verb + "`; see `help`\n";
  }
  const auto result = command->run(objects, words);
  return result ? *result : "error=" + result.error().message + "\n";
}

}  // namespace

int main() {
  auto objects = uroce::console::Objects::open();
  if (!objects) {
    std::fprintf(stderr, "uroce-console: %s\n", objects.error().message.c_str());
    return 1;
  }
  std::cout << kPrompt << std::flush;
  std::string line;
  while (std::getline(std::cin, line) && line != "quit") {
    std::cout << answer(**objects, line) << kPrompt << std::flush;
  }
  std::cout << std::endl;
  return 0;
}
