// queues, channels, domains: takes as many objects as the daemon gives, in one session after the
// other, again and again. Before each repetition it sends requests for which the daemon needs
// memory.

#include <cstdio>
#include <memory>
#include <set>

#include "abi/command_records.h"
#include "tests/hostile/attack.h"

namespace uroce::hostile {
namespace {

constexpr std::size_t kSessionsOfAnAttack = 64;
constexpr int kObjectsOfASession = 2'000;
constexpr std::uint32_t kEntries = 16;

Answer make_queue(RawSession& session) {
  abi::CreateCqRequest request{};
  request.entries = kEntries;
  return session.ask(abi::Command::kCreateCq, request);
}

Answer make_channel(RawSession& session) {
  return session.ask(abi::Command::kCreateChannel, Bare{});
}

Answer make_domain(RawSession& session) { return session.ask(abi::Command::kAllocPd, Bare{}); }

std::string sentence_of(const Answer& answer) {
  return std::string(answer.header.message,
                     ::strnlen(answer.header.message, sizeof(answer.header.message)));
}

// Requests that need the daemon's heap, when memory is exhausted.
void ask_for_words(const std::vector<std::unique_ptr<RawSession>>& sessions) {
  for (const auto& session : sessions) {
    for (int i = 0; i < kObjectsOfASession; ++i) {
      if (const Answer answer = make_domain(*session); answer.closed || answer.header.error != 0) {
        break;
      }
    }
    Answer answer = session->ask(abi::Command::kStatus, Bare{});
    while (!answer.closed && (answer.header.flags & abi::kReplyMore) != 0) {
      answer = session->receive();
    }
  }
}

template <typename Make>
[[noreturn]] void take_all(const Make& make) {
  say_attacking();
  std::set<std::string> told;
  for (;;) {
    std::vector<std::unique_ptr<RawSession>> sessions;
    bool refused = false;
    while (!refused && sessions.size() < kSessionsOfAnAttack) {
      sessions.push_back(std::make_unique<RawSession>());
      RawSession& session = *sessions.back();
      Answer answer = session.open();
      for (int i = 0; !answer.closed && answer.header.error == 0 && i < kObjectsOfASession; ++i) {
        answer = make(session);
      }
      refused = answer.closed || answer.header.error != 0;
      const std::string sentence =
          answer.closed ? "closed"
                        : std::to_string(answer.header.error) + " " + sentence_of(answer);
      if (refused && told.insert(sentence).second) {
        std::printf("%s\n", sentence.c_str());
        std::fflush(stdout);
      }
    }
    ask_for_words(sessions);
  }
}

}  // namespace

int attack_with_queues(Arguments /*arguments*/) { take_all(make_queue); }

int attack_with_channels(Arguments /*arguments*/) { take_all(make_channel); }

}  // namespace uroce::hostile
