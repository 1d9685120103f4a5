// Captures that are truncated, damaged or hostile: read as far as possible, in bounded tables.

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "apps/check/report.h"
#include "tests/check/story.h"
#include "tests/replay/captures.h"
#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

using Text = std::string;

Text read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Damaged : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/uroce-damaged-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Whatever the input: it returns, and its result can be printed.
  void judge_text(const Text& text, check::Verdict& verdict) {
    const auto file = folder_ / "x.pcap";
    std::ofstream(file, std::ios::binary) << text;
    std::ostringstream out;
    if (check::analyse(file, {}, verdict)) {
      print_report(verdict, out);
      print_json(verdict, out);
      EXPECT_FALSE(out.str().empty());
    }
  }

  std::filesystem::path folder_;
};

TEST_F(Damaged, TruncatedAnywhere) {
  const Text whole = read_text(*captures_folder() / "rc_mixed.pcap");
  ASSERT_GT(whole.size(), 500U);
  for (std::size_t length = 0; length < whole.size(); length += 37) {
    check::Verdict verdict;
    judge_text(whole.substr(0, length), verdict);
  }
  check::Verdict verdict;
  judge_text(whole.substr(0, whole.size() - 3), verdict);
  EXPECT_EQ(verdict.frames, 14U);
  EXPECT_NE(verdict.damage.find("truncated"), std::string::npos) << verdict.damage;
  EXPECT_EQ(verdict.faults(), 0U);
}

TEST_F(Damaged, BytesChanged) {
  std::mt19937 random(7);
  for (const char* const name : {"rc_mixed", "lost_read_resp", "rnr_nak", "t_ib_write_bw_cm"}) {
    const Text whole = read_text(*captures_folder() / (std::string(name) + ".pcap"));
    for (int round = 0; round < 200; ++round) {
      Text text = whole;
      for (int i = 0; i < 1 + round % 16; ++i) {
        text[random() % text.size()] = static_cast<char>(random());
      }
      check::Verdict verdict;
      judge_text(text, verdict);
    }
  }
}

// A capture with `tcpdump -s 96`: the headers are complete.
TEST_F(Damaged, TruncatedFramesAreJudgedByTheirHeaders) {
  Story story;
  story.write_long(0, 5);
  story.nak(1);
  story.nak(1);
  const Text whole = read_text(story.write_file());
  constexpr std::size_t kFileHeader = 24, kFrameHeader = 16, kSnap = 96;
  Text text = whole.substr(0, kFileHeader);
  for (std::size_t at = kFileHeader; at < whole.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, whole.data() + at + 8, sizeof(length));
    const auto kept = static_cast<std::uint32_t>(std::min<std::size_t>(length, kSnap));
    text += whole.substr(at, kFrameHeader + kept);
    std::memcpy(text.data() + text.size() - kept - 8, &kept, sizeof(kept));
    at += kFrameHeader + length;
  }
  check::Verdict verdict;
  judge_text(text, verdict);
  EXPECT_EQ(found(verdict), "second_nak 1");
  EXPECT_EQ(verdict.cut_short, 5U);
}

// Valid packets of all opcodes with random fields, which form no sensible connections.
TEST_F(Damaged, RandomPackets) {
  Random random(11);
  Story story;
  const auto opcodes = all_opcodes();
  const Path path = random_path(random, {});
  for (int i = 0; i < 20'000; ++i) {
    const Opcode opcode = opcodes[random() % opcodes.size()];
    Headers headers = random_headers(random, opcode);
    headers.dest_qpn = 2 + static_cast<std::uint32_t>(random() % 3);
    headers.psn = static_cast<std::uint32_t>(random() % 5'000);
    headers.reth.length = static_cast<std::uint32_t>(random() % 100'000);
    Path its_path = path;
    if (random() % 2 == 0) {
      std::swap(its_path.source_gid, its_path.destination_gid);
    }
    OwnedFrame out;
    build(out, its_path, headers, Bytes(possible_payload(opcode, random() % 8)), 0);
    story.frames().push_back(
        {.time = random() % 1'000'000'000, .bytes = {out.bytes().begin(), out.bytes().end()}});
  }
  check::Verdict verdict;
  story.analyse(verdict);
  EXPECT_EQ(verdict.frames, 20'000U);
  EXPECT_GT(verdict.faults(), 0U);
  for (const auto& half : verdict.of_half) {
    EXPECT_LE(half.findings.kept().size(), check::Findings::kKeptMax);
  }
}

TEST_F(Damaged, MoreConnectionsThanTheTableHolds) {
  Story story;
  Headers headers;
  headers.opcode = Opcode::kRcSendOnly;
  Random random(3);
  const Path path = random_path(random, {});
  for (std::uint32_t i = 0; i < check::HalfConnections::kMax + 100; ++i) {
    headers.dest_qpn = 2 + i;
    OwnedFrame out(128);
    build(out, path, headers, {}, 0);
    story.frames().push_back({.time = i, .bytes = {out.bytes().begin(), out.bytes().end()}});
  }
  check::Verdict verdict;
  story.analyse(verdict);
  EXPECT_EQ(verdict.halves.beyond(), 100U);
  EXPECT_EQ(verdict.of_half.size(), check::HalfConnections::kMax);
  EXPECT_EQ(verdict.faults(), 0U);
}

}  // namespace
}  // namespace uroce::test
