// The opcode table against that of IBTA vol. 1, 9.2.1.

#include "dataplane/wire/opcode.h"

#include <gtest/gtest.h>

#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

const OpcodeInfo& info(unsigned code) { return kOpcodeTable.at(code); }

TEST(Opcode, knows_exactly_the_specified_ones) {
  std::vector<unsigned> expected;
  for (unsigned code = 0x00; code <= 0x14; ++code) {
    expected.push_back(code);
  }
  expected.insert(expected.end(), {0x16, 0x17, 0x1C, 0x1D});
  for (unsigned code = 0x20; code <= 0x2B; ++code) {
    expected.push_back(code);
  }
  expected.insert(expected.end(), {0x64, 0x65, 0x81});
  for (unsigned code = 0xA0; code <= 0xB4; ++code) {
    expected.push_back(code);
  }
  expected.insert(expected.end(), {0xB6, 0xB7});
  expected.insert(expected.end(), {0xC0, 0xC1});  // manufacturer-specific: ours
  std::vector<unsigned> found;
  for (const Opcode opcode : all_opcodes()) {
    found.push_back(static_cast<unsigned>(opcode));
  }
  EXPECT_EQ(found, expected);
}

TEST(Opcode, header_lengths) {
  const std::vector<std::pair<unsigned, unsigned>> lengths{
      {0x00, 12}, {0x03, 16}, {0x06, 28}, {0x0B, 32}, {0x0C, 28}, {0x0D, 16},
      {0x0E, 12}, {0x11, 16}, {0x12, 24}, {0x13, 40}, {0x17, 16}, {0x1C, 32},
      {0x1D, 28}, {0x26, 28}, {0x64, 20}, {0x65, 24}, {0x81, 12}, {0xA0, 16},
      {0xA6, 32}, {0xAB, 36}, {0xAD, 16}, {0xB1, 16}, {0xB3, 44}};
  for (const auto& [code, length] : lengths) {
    EXPECT_EQ(info(code).header_length, length) << info(code).name;
  }
}

TEST(Opcode, transport_is_the_three_high_bits) {
  for (const Opcode opcode : all_opcodes()) {
    EXPECT_EQ(static_cast<unsigned>(opcode_info(opcode).transport),
              static_cast<unsigned>(opcode) >> 5U);
  }
}

TEST(Opcode, extension_headers_are_consecutive) {
  EXPECT_EQ(opcode_info(Opcode::kRcWriteOnlyImm).offset(Extension::kReth), 12U);
  EXPECT_EQ(opcode_info(Opcode::kRcWriteOnlyImm).offset(Extension::kImmediate), 28U);
  EXPECT_EQ(opcode_info(Opcode::kRcFlush).offset(Extension::kFeth), 12U);
  EXPECT_EQ(opcode_info(Opcode::kRcFlush).offset(Extension::kReth), 16U);
  EXPECT_EQ(opcode_info(Opcode::kRcAtomicAcknowledge).offset(Extension::kAtomicAckEth), 16U);
  EXPECT_EQ(opcode_info(Opcode::kUdSendOnlyImm).offset(Extension::kImmediate), 20U);
  EXPECT_EQ(opcode_info(Opcode::kXrcCompareSwap).offset(Extension::kAtomicEth), 16U);
}

TEST(Opcode, places_in_a_message) {
  EXPECT_TRUE(opcode_info(Opcode::kRcSendFirst).first && !opcode_info(Opcode::kRcSendFirst).last);
  EXPECT_FALSE(opcode_info(Opcode::kRcWriteMiddle).first ||
               opcode_info(Opcode::kRcWriteMiddle).last);
  EXPECT_TRUE(opcode_info(Opcode::kRcWriteLastImm).last);
  EXPECT_TRUE(opcode_info(Opcode::kUdSendOnly).first && opcode_info(Opcode::kUdSendOnly).last);
  EXPECT_TRUE(opcode_info(Opcode::kRcReadRequest).request);
  EXPECT_FALSE(opcode_info(Opcode::kRcReadRequest).payload);
  EXPECT_FALSE(opcode_info(Opcode::kXrcReadResponseOnly).request);
}

TEST(Opcode, names) {
  EXPECT_EQ(opcode_info(Opcode::kRcSendFirst).name, "RC SEND FIRST");
  EXPECT_EQ(opcode_info(Opcode::kXrcFetchAdd).name, "XRC FETCH ADD");
  for (const Opcode opcode : all_opcodes()) {
    EXPECT_FALSE(opcode_info(opcode).name.empty());
  }
}

}  // namespace
}  // namespace uroce::test
