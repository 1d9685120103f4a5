#pragma once

// A queue pair under a fuzzer: memory that must stay as it is outside of what was registered, the
// peer's packets out of a ByteSource, and what must hold whatever comes.

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

  // A packet of any opcode of its transport, near enough to what the queue pair expects to get
  // somewhere.
  void receive(ByteSource& source);
  // What a uroce says of kept packets, or something like it.
  void receive_kept_notice(ByteSource& source);
  // Sends a portion; every frame must parse.
  void transmit(ByteSource& source);
  // Time goes on, and deadlines come.
  void wait(ByteSource& source);
  // The program moves it: RESET and back to RTS (then true), SQD, RTS, ERR.
  bool modify(ByteSource& source);
  void deregister_and_register();
  // The program binds a window to anything, or invalidates it.
  void change_window(ByteSource& source);

  // An address in the region, most times; a key of it or of a window, most times.
  std::uint64_t address(ByteSource& source);
  std::uint32_t key(ByteSource& source);
  std::uint32_t length(ByteSource& source);

 private:
  QpType type_;
  AddressTable addresses_;  // handle 1: good; 2: of another domain
  Bytes memory_;            // the region; behind and in front of it the sanitizer watches
  Bytes untouched_;         // of another domain, and another without rights
  std::vector<std::uint32_t> keys_;
  std::vector<std::uint32_t> windows_;
  std::unique_ptr<QpRig> rig_;
};

void require(bool condition, const char* what);

}  // namespace uroce::test
