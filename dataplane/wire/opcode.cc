// The opcode table, computed at compile time from one row for each operation.

#include "dataplane/wire/opcode.h"

#include <algorithm>
#include <numeric>

#include "dataplane/wire/headers.h"

namespace uroce {
namespace {

// Where a packet stands in its message.
enum class Place : std::uint8_t { kFirst, kMiddle, kLast, kOnly };

// One operation (bits 4:0 of an opcode), with its name in each transport that has it.
struct Row {
  std::uint8_t code;
  Operation operation;
  Place place;
  bool request;
  bool payload;
  std::uint16_t extensions;
  std::string_view rc;
  std::string_view uc;
  std::string_view xrc;
};

constexpr std::uint16_t bit(Extension extension) { return static_cast<std::uint16_t>(extension); }
constexpr std::uint16_t kNothing = 0;
constexpr std::uint16_t kImm = bit(Extension::kImmediate);
constexpr std::uint16_t kReth = bit(Extension::kReth);
constexpr std::uint16_t kAeth = bit(Extension::kAeth);
constexpr std::uint16_t kIeth = bit(Extension::kIeth);
constexpr std::uint16_t kAtomic = bit(Extension::kAtomicEth);

// Transports that have an operation: those of all three, those without UC, those of RC alone.
#define UROCE_ALL(name) "RC " name, "UC " name, "XRC " name
#define UROCE_RELIABLE(name) "RC " name, "", "XRC " name
#define UROCE_RC(name) "RC " name, "", ""

// IBTA vol. 1, table 38; annex A19 for FLUSH and ATOMIC WRITE.
constexpr Row kRows[] = {
    {0x00, Operation::kSend, Place::kFirst, true, true, kNothing, UROCE_ALL("SEND FIRST")},
    {0x01, Operation::kSend, Place::kMiddle, true, true, kNothing, UROCE_ALL("SEND MIDDLE")},
    {0x02, Operation::kSend, Place::kLast, true, true, kNothing, UROCE_ALL("SEND LAST")},
    {0x03, Operation::kSend, Place::kLast, true, true, kImm, UROCE_ALL("SEND LAST IMM")},
    {0x04, Operation::kSend, Place::kOnly, true, true, kNothing, UROCE_ALL("SEND ONLY")},
    {0x05, Operation::kSend, Place::kOnly, true, true, kImm, UROCE_ALL("SEND ONLY IMM")},
    {0x06, Operation::kWrite, Place::kFirst, true, true, kReth, UROCE_ALL("WRITE FIRST")},
    {0x07, Operation::kWrite, Place::kMiddle, true, true, kNothing, UROCE_ALL("WRITE MIDDLE")},
    {0x08, Operation::kWrite, Place::kLast, true, true, kNothing, UROCE_ALL("WRITE LAST")},
    {0x09, Operation::kWrite, Place::kLast, true, true, kImm, UROCE_ALL("WRITE LAST IMM")},
    {0x0A, Operation::kWrite, Place::kOnly, true, true, kReth, UROCE_ALL("WRITE ONLY")},
    {0x0B, Operation::kWrite, Place::kOnly, true, true, kReth | kImm, UROCE_ALL("WRITE ONLY IMM")},
    {0x0C, Operation::kReadRequest, Place::kOnly, true, false, kReth,
     UROCE_RELIABLE("READ REQUEST")},
    {0x0D, Operation::kReadResponse, Place::kFirst, false, true, kAeth,
     UROCE_RELIABLE("READ RESPONSE FIRST")},
    {0x0E, Operation::kReadResponse, Place::kMiddle, false, true, kNothing,
     UROCE_RELIABLE("READ RESPONSE MIDDLE")},
    {0x0F, Operation::kReadResponse, Place::kLast, false, true, kAeth,
     UROCE_RELIABLE("READ RESPONSE LAST")},
    {0x10, Operation::kReadResponse, Place::kOnly, false, true, kAeth,
     UROCE_RELIABLE("READ RESPONSE ONLY")},
    {0x11, Operation::kAcknowledge, Place::kOnly, false, false, kAeth,
     UROCE_RELIABLE("ACKNOWLEDGE")},
    {0x12, Operation::kAtomicAcknowledge, Place::kOnly, false, false,
     kAeth | bit(Extension::kAtomicAckEth), UROCE_RELIABLE("ATOMIC ACKNOWLEDGE")},
    {0x13, Operation::kCompareSwap, Place::kOnly, true, false, kAtomic,
     UROCE_RELIABLE("COMPARE SWAP")},
    {0x14, Operation::kFetchAdd, Place::kOnly, true, false, kAtomic, UROCE_RELIABLE("FETCH ADD")},
    {0x16, Operation::kSend, Place::kLast, true, true, kIeth, UROCE_RELIABLE("SEND LAST INV")},
    {0x17, Operation::kSend, Place::kOnly, true, true, kIeth, UROCE_RELIABLE("SEND ONLY INV")},
    {0x1C, Operation::kFlush, Place::kOnly, true, false, bit(Extension::kFeth) | kReth,
     UROCE_RC("FLUSH")},
    {0x1D, Operation::kAtomicWrite, Place::kOnly, true, true, kReth, UROCE_RC("ATOMIC WRITE")},
};

#undef UROCE_ALL
#undef UROCE_RELIABLE
#undef UROCE_RC

// Bytes of each extension header, in the order of enum Extension.
constexpr std::array<std::uint8_t, kExtensionCount> kExtensionLengths{4, 8, 4, 16, 28, 4, 8, 4, 4};

constexpr void lay_out(OpcodeInfo& info) {
  std::size_t length = kBthLength;
  for (std::size_t i = 0; i < kExtensionCount; ++i) {
    if (((info.extensions >> i) & 1U) != 0) {
      info.offsets[i] = static_cast<std::uint8_t>(length);
      length += kExtensionLengths[i];
    }
  }
  info.header_length = static_cast<std::uint16_t>(length);
}

constexpr OpcodeInfo make_info(const Row& row, Transport transport, std::string_view name,
                               std::uint16_t more_extensions) {
  OpcodeInfo info;
  info.operation = row.operation;
  info.transport = transport;
  info.first = row.place == Place::kFirst || row.place == Place::kOnly;
  info.last = row.place == Place::kLast || row.place == Place::kOnly;
  info.request = row.request;
  info.payload = row.payload;
  info.extensions = row.extensions | more_extensions;
  info.name = name;
  lay_out(info);
  return info;
}

constexpr std::size_t code_of(Transport transport, const Row& row) {
  return static_cast<std::size_t>(static_cast<unsigned>(transport) << 5U) | row.code;
}

constexpr EnumArray<Opcode, OpcodeInfo, 256> make_table() {
  EnumArray<Opcode, OpcodeInfo, 256> table{};
  for (const Row& row : kRows) {
    const std::uint16_t xrc = row.request ? bit(Extension::kXrcEth) : kNothing;
    table[code_of(Transport::kRc, row)] = make_info(row, Transport::kRc, row.rc, kNothing);
    if (!row.uc.empty()) {
      table[code_of(Transport::kUc, row)] = make_info(row, Transport::kUc, row.uc, kNothing);
    }
    if (!row.xrc.empty()) {
      table[code_of(Transport::kXrc, row)] = make_info(row, Transport::kXrc, row.xrc, xrc);
    }
    if (row.operation == Operation::kSend && row.place == Place::kOnly && row.code <= 0x05) {
      const std::string_view name = row.code == 0x04 ? "UD SEND ONLY" : "UD SEND ONLY IMM";
      table[code_of(Transport::kUd, row)] =
          make_info(row, Transport::kUd, name, bit(Extension::kDeth));
    }
  }
  // Annex A17.9.3: a congestion notification is a BTH and 16 reserved bytes.
  constexpr Row kCnpRow{0x01, Operation::kCnp, Place::kOnly, false, true, kNothing, "", "", ""};
  table[Opcode::kCnp] = make_info(kCnpRow, Transport::kCnp, "CNP", kNothing);
  constexpr Row kSackRequestRow{
      0x00, Operation::kSackRequest, Place::kOnly, true, true, kNothing, "", "", ""};
  table[Opcode::kSackRequest] =
      make_info(kSackRequestRow, Transport::kManufacturer, "UROCE SACK REQUEST", kNothing);
  constexpr Row kSackRow{0x01, Operation::kSack, Place::kOnly, false, true, kNothing, "", "", ""};
  table[Opcode::kSack] = make_info(kSackRow, Transport::kManufacturer, "UROCE SACK", kNothing);
  return table;
}

}  // namespace

constexpr EnumArray<Opcode, OpcodeInfo, 256> kOpcodeTable = make_table();

static_assert(std::accumulate(kOpcodeTable.begin(), kOpcodeTable.end(), std::size_t{0},
                              [](std::size_t max, const OpcodeInfo& info) {
                                return info.payload ? std::max<std::size_t>(max, info.header_length)
                                                    : max;
                              }) == kPayloadHeadersMax);
static_assert(kOpcodeTable[Opcode::kRcWriteOnlyImm].header_length == 32);
static_assert(kOpcodeTable[Opcode::kXrcWriteOnly].offset(Extension::kReth) == 16);
static_assert(kOpcodeTable[Opcode::kUdSendOnlyImm].header_length == 24);

}  // namespace uroce
