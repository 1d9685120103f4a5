#pragma once

// A queue pair under a fuzzer: memory that must stay unchanged outside registered regions, the
// peer's packets from a ByteSource, and checks of what must always hold.

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/fuzz/byte_source.h"
#include "tests/qp/rig.h"

namespace uroce::test {

class QpSubject {
 public:
  static constexpr std::uint64_t kIova = 0x10000;
  static constexpr std::uint32_t kRegionLength = 8'192;
  static constexpr std::uint32_t kMtu = 256;

  explicit QpSubject(QpType type = QpType::kRc);
  ~QpSubject();
  QpSubject(const QpSubject&) = delete;
  QpSubject& operator=(const QpSubject&) = delete;

  QpRig& rig() { return *rig_; }

  // A packet of any opcode of its transport, near enough to what the queue pair expects to pass the
  // first checks.
  void receive(ByteSource& source);
  // A SACK or a request for SACKs, or something similar.
  void receive_sack_packet(ByteSource& source);
  // Sends a portion; every frame must parse.
  void transmit(ByteSource& source);
  // Time passes, and timers expire.
  void wait(ByteSource& source);
  // The program changes its state: RESET and back to RTS (then true), SQD, RTS, ERR.
  bool modify(ByteSource& source);
  void deregister_and_register();
  // The program binds a window to any range, or invalidates it.
  void change_window(ByteSource& source);

  // An address, mostly in the region; a key, mostly of the region or of a window.
  std::uint64_t address(ByteSource& source);
  std::uint32_t key(ByteSource& source);
  std::uint32_t length(ByteSource& source);

 private:
  QpType type_;
  AddressTable addresses_;  // handle 1: good; 2: of another domain
  Bytes memory_;            // the region; the sanitizer watches both sides of it
  Bytes untouched_;         // of another domain, and another without rights
  std::vector<std::uint32_t> keys_;
  std::vector<std::uint32_t> windows_;
  std::unique_ptr<QpRig> rig_;
};

void require(bool condition, const char* what);

}  // namespace uroce::test
