// Every packet of the captures of a real peer (Linux's rxe) parses, its ICRC verifies where the
// captures' index says so, and building it again from what was parsed gives the same bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "dataplane/wire/packet.h"
#include "tests/wire/capture_file.h"
#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

using Kinds = std::map<std::string, std::size_t>;

// A row of captures/INDEX.md: "| file | case | packets | ICRC | kinds |".
struct Entry {
  std::string file;
  std::size_t packets = 0;
  bool one_wrong = false;
  Kinds kinds;
};

std::string trimmed(const std::string& text) {
  const auto from = text.find_first_not_of(' ');
  return from == std::string::npos ? "" : text.substr(from, text.find_last_not_of(' ') - from + 1);
}

std::vector<Entry> read_index(const std::filesystem::path& folder) {
  std::ifstream index(folder / "INDEX.md");
  std::vector<Entry> entries;
  for (std::string line; std::getline(index, line);) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');) {
      cells.push_back(trimmed(cell));
    }
    if (cells.size() != 6 || cells[1] == "file" || cells[1].starts_with("--")) {
      continue;
    }
    Entry entry{.file = cells[1],
                .packets = std::stoul(cells[3]),
                .one_wrong = cells[4] != "all right",
                .kinds = {}};
    std::istringstream kinds(cells[5]);
    for (std::string kind; kinds >> kind;) {
      const auto equals = kind.find('=');
      entry.kinds[kind.substr(0, equals)] = std::stoul(kind.substr(equals + 1));
    }
    entries.push_back(entry);
  }
  return entries;
}

// A packet's kind as the index names it: "RC_READ_RESP_FIRST", "RC_ACK:RNR".
std::string kind_of(const Packet& packet) {
  std::string kind(opcode_info(packet.opcode).name);
  std::replace(kind.begin(), kind.end(), ' ', '_');
  const std::map<std::string, std::string> short_forms{{"READ_REQUEST", "READ_REQ"},
                                                       {"READ_RESPONSE", "READ_RESP"},
                                                       {"ACKNOWLEDGE", "ACK"},
                                                       {"COMPARE_SWAP", "CMP_SWAP"}};
  for (const auto& [full, shorter] : short_forms) {
    if (const auto at = kind.find(full); at != std::string::npos) {
      kind.replace(at, full.size(), shorter);
    }
  }
  if (packet.opcode == Opcode::kRcAcknowledge) {
    const std::map<unsigned, std::string> errors{{0x20, ":RNR"},
                                                 {0x60, ":PSN_SEQ_ERR"},
                                                 {0x61, ":INVALID_REQ"},
                                                 {0x62, ":REMOTE_ACCESS_ERR"},
                                                 {0x63, ":REMOTE_OP_ERR"}};
    const unsigned syndrome = packet.aeth().syndrome;
    const unsigned key = (syndrome & 0x60U) == kSyndromeRnr ? kSyndromeRnr : syndrome;
    if (const auto error = errors.find(key); error != errors.end()) {
      kind += error->second;
    }
  }
  return kind;
}

class Captures : public testing::Test {
 protected:
  void SetUp() override {
    const auto folder = captures_folder();
    ASSERT_TRUE(folder.has_value()) << folder.error().message;
    folder_ = *folder;
    entries_ = read_index(folder_);
    ASSERT_FALSE(entries_.empty()) << "no rows in " << folder_ / "INDEX.md";
  }

  // The frames of a capture, with room behind each for nothing.
  CaptureFrames frames_of(const Entry& entry) {
    auto frames = read_capture(folder_ / (entry.file + ".pcap"));
    EXPECT_TRUE(frames.has_value()) << frames.error().message;
    return frames.has_value() ? *frames : CaptureFrames{};
  }

  std::filesystem::path folder_;
  std::vector<Entry> entries_;
};

TEST_F(Captures, parse_and_verify_as_the_index_says) {
  for (const Entry& entry : entries_) {
    SCOPED_TRACE(entry.file);
    Kinds kinds;
    std::size_t wrong = 0;
    const CaptureFrames frames = frames_of(entry);
    for (const auto& bytes : frames) {
      OwnedFrame owned(bytes);
      const Drop headers = parse_headers(owned.frame);
      ASSERT_EQ(headers, Drop::kNone) << kDropTexts[headers].name;
      ++kinds[kind_of(owned.frame.packet)];
      const Drop drop = parse(owned.frame);
      EXPECT_TRUE(drop == Drop::kNone || drop == Drop::kBadIcrc);
      wrong += drop == Drop::kBadIcrc ? 1 : 0;
    }
    EXPECT_EQ(frames.size(), entry.packets);
    EXPECT_EQ(wrong, entry.one_wrong ? 1U : 0U);
    EXPECT_EQ(kinds, entry.kinds);
  }
}

TEST_F(Captures, build_again_to_the_same_bytes) {
  std::size_t compared = 0;
  for (const Entry& entry : entries_) {
    SCOPED_TRACE(entry.file);
    for (const auto& bytes : frames_of(entry)) {
      OwnedFrame owned(bytes);
      if (parse(owned.frame) != Drop::kNone) {
        continue;  // the corrupt one
      }
      OwnedFrame again;
      rebuild(again, owned.frame);
      // What is behind the ICRC is Ethernet's padding.
      ASSERT_LE(again.frame.length, bytes.size());
      EXPECT_TRUE(std::equal(again.bytes().begin(), again.bytes().end(), bytes.begin()))
          << kind_of(owned.frame.packet) << ", PSN " << owned.frame.packet.psn;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0U);
}

TEST_F(Captures, each_file_is_in_the_index) {
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder_)) {
    if (file.path().extension() == ".pcap") {
      files.push_back(file.path().stem());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> indexed;
  for (const Entry& entry : entries_) {
    indexed.push_back(entry.file);
  }
  std::sort(indexed.begin(), indexed.end());
  EXPECT_EQ(files, indexed);
}

}  // namespace
}  // namespace uroce::test
