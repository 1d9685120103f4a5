#pragma once

// The constants of CM MADs. mad_parse.cc and mad_build.cc read and write fields in wire order;
// tests compare both with captures and tshark.

#include <cstddef>
#include <cstdint>

namespace uroce::control::cm {

// IBTA vol. 1, 13.4.2
//  0                   1                   2                   3
//  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
// +---------------+---------------+---------------+---------------+
// | Base version  |     Class     | Class version |    Method     |
// +---------------+---------------+---------------+---------------+
// |            Status             |        Class specific         |
// +-------------------------------+-------------------------------+
// |                        Transaction ID                         |
// |                                                               |
// +-------------------------------+-------------------------------+
// |         Attribute ID          |           Reserved            |
// +-------------------------------+-------------------------------+
// |                      Attribute modifier                       |
// +---------------------------------------------------------------+
// |                     232 bytes of the class                    |
inline constexpr std::size_t kMadHeaderBytes = 24;
inline constexpr std::uint8_t kBaseVersion = 1;
inline constexpr std::uint8_t kClassVersion = 2;
inline constexpr std::uint8_t kMethodSend = 3;

// IBTA vol. 1, 12.6.1
enum class Attribute : std::uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
  kLap = 0x19,
  kApr = 0x1A,
};

}  // namespace uroce::control::cm
