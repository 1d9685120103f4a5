#pragma once

// Plays one conformance case against a queue pair on a test bench (tests/qp/rig.h). The meaning of
// each line: tests/conformance/cases/README.md. Packets, completions and events that the case
// doesn't expect are failures.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/script.h"
#include "tests/qp/rig.h"

namespace uroce::test {

class Player {
 public:
  explicit Player(const Script& script);

  // The first failure; empty if there was none.
  [[nodiscard]] std::string play();

 private:
  struct Memory {
    Bytes bytes;
    std::uint64_t iova = 0;
    std::uint32_t key = 0;
  };
  // An address in a region: "A+16"; with ":64" also a length.
  struct Place {
    Memory* memory = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };

  std::string set_up();
  std::string step(const Line& line);
  std::string add_region(const Line& line);
  std::string add_window(const Line& line);
  std::string remove_region(const Line& line);
  std::string remove_srq(const Line& line);
  std::string post_receive(const Line& line);
  std::string deliver(const Line& line);
  std::string expect_packet(const Line& line);
  std::string expect_silence(const Line& line);
  std::string expect_completion(const Line& line);
  std::string expect_event(const Line& line);
  std::string expect_state(const Line& line);
  std::string expect_memory(const Line& line);
  std::string move_to(const Line& line);
  std::string finish();
  void transmit();
  [[nodiscard]] Place place(const std::string& text);
  [[nodiscard]] std::optional<std::uint32_t> key_of(const Line& line,
                                                    const std::string& word) const;
  [[nodiscard]] std::string response_difference(const Line& line, const SentPacket& sent);

  const Script& script_;
  std::unique_ptr<QpRig> rig_;
  std::map<std::string, std::unique_ptr<Memory>> regions_;
  std::vector<std::unique_ptr<Memory>> removed_;
  std::deque<SentPacket> sent_;
  std::deque<abi::Cqe> completions_;
};

}  // namespace uroce::test
