#pragma once

// A capture taken apart: for each RC queue pair in it that was asked something, the requests that
// it got and the answers that it gave, in the capture's order.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/qp/rig.h"

namespace uroce::test {

struct Record {
  bool request = false;                // to the queue pair; else from it
  std::size_t number = 0;              // of the frame in the capture, from 1 as in tshark
  std::unique_ptr<FrameCopy> frame{};  // parsed

  [[nodiscard]] const Packet& packet() const { return frame->frame.packet; }
};

struct Flow {
  Gid local;  // of the responder
  Gid peer;
  std::uint32_t qpn = 0;       // of the responder
  std::uint32_t peer_qpn = 0;  // 0: it never answered
  std::uint32_t mtu = 1024;
  std::vector<Record> records;  // requests and answers

  [[nodiscard]] std::string name() const;
};

// `frames`: of one capture. Frames that don't parse (a wrong ICRC) never reached a queue pair.
[[nodiscard]] std::vector<Flow> flows_of(const std::vector<Bytes>& frames);

// "RC_ACKNOWLEDGE qp=18 psn=100 syndrome=ACK msn=1"; a payload by its length and a hash.
[[nodiscard]] std::string describe(const Packet& packet);

}  // namespace uroce::test
