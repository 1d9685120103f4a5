// uroce-console: makes queue pairs and regions with chosen numbers and looks at them, for people
// and scripts that debug what goes over the wire. Reads commands, answers key=value lines, then
// prints its prompt. `uroced --console` starts it.

#include <cstdio>
#include <iostream>
#include <map>
#include <string>

#include "apps/console/commands.h"
#include "apps/console/line_reader.h"

namespace uroce::console {
namespace {

constexpr const char* kPrompt = "uroce> ";
constexpr std::size_t kLaterMax = 256;  // commands that wait for their time
constexpr std::uint64_t kLaterMsMax = 600'000;

class Console {
 public:
  explicit Console(Objects& objects) : objects_(objects) {}

  void run() {
    std::cout << kPrompt << std::flush;
    while (!input_.at_end()) {
      const auto line =
          input_.next(later_.empty() ? std::nullopt : std::optional(later_.begin()->first));
      run_due();
      if (line == "quit") {
        return;
      }
      if (line) {
        std::cout << answer(*line) << kPrompt << std::flush;
      }
    }
  }

 private:
  std::string answer(const std::string& line) {
    Words words(line);
    if (words.empty()) {
      return {};
    }
    const std::string verb = words.next_name();
    if (verb == "help") {
      return help_text();
    }
    if (verb == "later") {
      return put_off(line);
    }
    const Command* const command = find_command(verb);
    if (command == nullptr) {
      return std::string("error=there is no command `").append(verb) + "`; see `help`\n";
    }
    const auto result = command->run(objects_, words);
    return result ? *result : std::string("error=").append(result.error().message) + "\n";
  }

  // later MS COMMAND
  std::string put_off(const std::string& line) {
    const std::size_t number = line.find_first_not_of(' ', line.find("later") + 5);
    const std::size_t end = std::min(line.find(' ', number), line.size());
    const auto wait = parse_number(line.substr(std::min(number, line.size()), end - number));
    if (!wait || *wait > kLaterMsMax || end == line.size() || later_.size() >= kLaterMax) {
      return "error=later MS COMMAND: at most " + std::to_string(kLaterMsMax) +
             " ms, and at most " + std::to_string(kLaterMax) + " commands at a time\n";
    }
    later_.emplace(LineReader::Clock::now() + std::chrono::milliseconds(*wait), line.substr(end));
    return "put_off=yes\n";
  }

  // Their answers aren't printed; failures are reported on standard error.
  void run_due() {
    while (!later_.empty() && later_.begin()->first <= LineReader::Clock::now()) {
      const std::string command = later_.begin()->second;
      later_.erase(later_.begin());
      if (const std::string text = answer(command); text.starts_with("error=")) {
        std::cerr << "uroce-console: later" << command << ": " << text << std::flush;
      }
    }
  }

  Objects& objects_;
  LineReader input_;
  std::multimap<LineReader::Clock::time_point, std::string> later_;
};

}  // namespace
}  // namespace uroce::console

int main() {
  auto objects = uroce::console::Objects::open();
  if (!objects) {
    std::fprintf(stderr, "uroce-console: %s\n", objects.error().message.c_str());
    return 1;
  }
  uroce::console::Console(**objects).run();
  std::cout << std::endl;
  return 0;
}
