#pragma once

// The console's commands. Each answers with lines of key=value, or an error of one sentence.

#include <functional>
#include <string>

#include "apps/console/objects.h"
#include "apps/console/words.h"

namespace uroce::console {

struct Command {
  const char* name;
  const char* usage;  // what follows the name
  Result<std::string> (*run)(Objects& objects, Words& words);
};

// nullptr: there is none of this name.
const Command* find_command(std::string_view name);
std::string help_text();

// Memory (commands_memory.cc)
Result<std::string> make_region(Objects& objects, Words& words);
Result<std::string> remove_region(Objects& objects, Words& words);
Result<std::string> forget_region(Objects& objects, Words& words);
Result<std::string> show_memory(Objects& objects, Words& words);
Result<std::string> fill_memory(Objects& objects, Words& words);

// Queue pairs (commands_qp.cc)
Result<std::string> make_queue(Objects& objects, Words& words);
Result<std::string> modify_queue(Objects& objects, Words& words);
Result<std::string> show_queue(Objects& objects, Words& words);
Result<std::string> destroy_shared_receive_queue(Objects& objects, Words& words);
Result<std::string> destroy_queue(Objects& objects, Words& words);

// Work (commands_work.cc)
Result<std::string> post_receive(Objects& objects, Words& words);
Result<std::string> post_send(Objects& objects, Words& words);
Result<std::string> poll_queue(Objects& objects, Words& words);
Result<std::string> next_event(Objects& objects, Words& words);

// Windows (commands_window.cc)
Result<std::string> make_window(Objects& objects, Words& words);
Result<std::string> free_window(Objects& objects, Words& words);

// The daemon (commands_daemon.cc)
Result<std::string> show_port(Objects& objects, Words& words);
Result<std::string> show_counters(Objects& objects, Words& words);

// Looks until there is something or the time is over. At most a minute.
bool wait_for(std::uint64_t milliseconds, const std::function<bool()>& look);

// A piece of a region as a verb takes it; ranges are the daemon's to check.
Result<ibv_sge> gather(const Objects& objects, const Place& place);

}  // namespace uroce::console
