#include "tests/unit/shim/address_watch_model.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tests/unit/shim/address_watch_machine.h"

namespace uroce::shim::test::model {
namespace {

struct Hash {
  std::size_t operator()(const State& state) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&state), sizeof(state)});
  }
};
struct Same {
  bool operator()(const State& a, const State& b) const {
    return std::memcmp(&a, &b, sizeof(a)) == 0;
  }
};

// All reachable states, breadth first, so that the ways to them are shortest.
class Exploration {
 public:
  explicit Exploration(const Setting& setting) : setting_(setting) {}

  Result run(std::optional<Violation> until) {
    const auto seen = [&] { return until && result_.violations.contains(*until); };
    find(State{}, 0, 0);
    for (std::size_t from = 0; from < states_.size() && !seen(); ++from) {
      for (std::size_t thread = 0; thread < setting_.threads.size(); ++thread) {
        take_step(from, thread);
      }
    }
    if (!seen()) {
      look_for_stuck();
    }
    result_.states = states_.size();
    return std::move(result_);
  }

 private:
  using Number = std::uint32_t;
  struct Origin {
    Number state;
    Number thread;
  };

  Number find(const State& state, Number from, std::size_t thread) {
    const auto [place, fresh] = numbers_.try_emplace(state, static_cast<Number>(states_.size()));
    if (fresh) {
      states_.push_back(state);
      origins_.push_back({from, static_cast<Number>(thread)});
      came_from_.emplace_back();
    }
    return place->second;
  }

  void take_step(std::size_t from, std::size_t thread) {
    State state = states_[from];
    Machine machine(setting_, state, thread);
    if (!machine.step()) {
      return;
    }
    const auto here = static_cast<Number>(from);
    if (machine.violation) {
      result_.violations.try_emplace(*machine.violation, way_to(here) + line(here, thread));
    }
    came_from_[find(state, here, thread)].push_back(here);
  }

  // Backwards from the states in which all threads are done: states that aren't met are stuck,
  // asleep or in a loop.
  void look_for_stuck() {
    std::vector<bool> ends_well(states_.size());
    std::vector<Number> todo;
    const auto meet = [&](Number number) {
      if (!ends_well[number]) {
        ends_well[number] = true;
        todo.push_back(number);
      }
    };
    for (Number i = 0; i < states_.size(); ++i) {
      if (std::all_of(states_[i].threads.begin(),
                      states_[i].threads.begin() + static_cast<long>(setting_.threads.size()),
                      [](const Thread& thread) { return thread.step == kDone; })) {
        meet(i);
      }
    }
    while (!todo.empty()) {
      const Number number = todo.back();
      todo.pop_back();
      std::for_each(came_from_[number].begin(), came_from_[number].end(), meet);
    }
    const auto stuck = std::find(ends_well.begin(), ends_well.end(), false);
    if (stuck != ends_well.end()) {
      result_.violations[Violation::kStuck] =
          way_to(static_cast<Number>(stuck - ends_well.begin()));
    }
  }

  [[nodiscard]] std::string line(Number state, std::size_t thread) const {
    return "  thread " + std::to_string(thread) + ": " +
           name_of(states_[state].threads[thread].step) + "\n";
  }
  [[nodiscard]] std::string way_to(Number state) const {
    std::string way;
    for (; state != 0; state = origins_[state].state) {
      way.insert(0, line(origins_[state].state, origins_[state].thread));
    }
    return way;
  }

  const Setting& setting_;
  std::vector<State> states_;
  std::vector<Origin> origins_;
  std::vector<std::vector<Number>> came_from_;
  std::unordered_map<State, Number, Hash, Same> numbers_;
  Result result_;
};

}  // namespace

Result explore(const Setting& setting, std::optional<Violation> until) {
  return Exploration(setting).run(until);
}

}  // namespace uroce::shim::test::model
