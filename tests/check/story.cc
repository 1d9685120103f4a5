#include "tests/check/story.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "dataplane/wire/ecn.h"
#include "dataplane/wire/psn.h"
#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

constexpr Duration kStep = 10 * kNanosecondsPerMicrosecond;
constexpr std::uint32_t kRkey = 0x1234;

Path path_between(const char* from, const char* to) {
  Path path;
  path.source_gid = *parse_ip(from);
  path.destination_gid = *parse_ip(to);
  return path;
}

}  // namespace

Story::Story()
    : asker_(path_between("10.0.0.1", "10.0.0.2")),
      answerer_(path_between("10.0.0.2", "10.0.0.1")) {
  std::string name = testing::TempDir() + "/uroce-check-XXXXXX";
  folder_ = ::mkdtemp(name.data());
}

Story::~Story() { std::filesystem::remove_all(folder_); }

void Story::send(const Path& path, Headers headers, std::uint32_t psn, std::uint32_t payload) {
  headers.psn = psn_add(kFirstPsn, psn);
  OwnedFrame out;
  Path its_path = path;
  its_path.tos = with_ecn(0, marked_ && &path == &asker_ ? Ecn::kCongested : Ecn::kCapable0);
  build(out, its_path, headers, Bytes(payload), ip_id_++);
  const auto bytes = out.bytes();
  frames_.push_back({.time = now_, .bytes = {bytes.begin(), bytes.end()}});
  now_ += kStep;
}

void Story::ask(Opcode opcode, std::uint32_t psn, std::uint32_t payload) {
  Headers headers;
  headers.opcode = opcode;
  headers.dest_qpn = kAnswererQpn;
  headers.ack_request = true;
  headers.reth = {.address = kAddress, .rkey = kRkey, .length = payload};
  send(asker_, headers, psn, payload);
}

void Story::write(std::uint32_t psn) { ask(Opcode::kRcWriteOnly, psn, 64); }

void Story::write_long(std::uint32_t psn, std::uint32_t packets) {
  for (std::uint32_t i = 0; i < packets; ++i) {
    ask(i == 0             ? Opcode::kRcWriteFirst
        : i == packets - 1 ? Opcode::kRcWriteLast
                           : Opcode::kRcWriteMiddle,
        psn + i, kMtu);
  }
}

void Story::read(std::uint32_t psn, std::uint32_t length, std::uint64_t address) {
  Headers headers;
  headers.opcode = Opcode::kRcReadRequest;
  headers.dest_qpn = kAnswererQpn;
  headers.reth = {.address = address, .rkey = kRkey, .length = length};
  send(asker_, headers, psn, 0);
}

void Story::word(std::uint32_t psn, std::uint8_t syndrome) {
  Headers headers;
  headers.opcode = Opcode::kRcAcknowledge;
  headers.dest_qpn = kAskerQpn;
  headers.aeth = {.syndrome = syndrome, .msn = 0};
  send(answerer_, headers, psn, 0);
}

void Story::response(Opcode opcode, std::uint32_t psn, std::uint32_t payload) {
  Headers headers;
  headers.opcode = opcode;
  headers.dest_qpn = kAskerQpn;
  headers.aeth = {.syndrome = kSyndromeAckUnlimited, .msn = 0};
  send(answerer_, headers, psn, payload);
}

void Story::responses(std::uint32_t psn, std::uint32_t packets) {
  for (std::uint32_t i = 0; i < packets; ++i) {
    response(i == 0             ? Opcode::kRcReadResponseFirst
             : i == packets - 1 ? Opcode::kRcReadResponseLast
                                : Opcode::kRcReadResponseMiddle,
             psn + i);
  }
}

void Story::notify() {
  Headers headers;
  headers.opcode = Opcode::kCnp;
  headers.dest_qpn = kAskerQpn;
  headers.becn = true;
  send(answerer_, headers, 0, 16);
}

void Story::go_on(std::uint32_t psn) {
  wait(kLong);
  write(psn);
  ack(psn);
}

std::filesystem::path Story::write_file() {
  const std::filesystem::path file = folder_ + "/story.pcap";
  EXPECT_TRUE(replay::write_capture(file, frames_));
  return file;
}

void Story::analyse(check::Verdict& verdict, const check::Limits& limits) {
  const auto judged = check::analyse(write_file(), limits, verdict);
  EXPECT_TRUE(judged) << judged.error().message;
}

std::string found(const check::Verdict& verdict) {
  std::string line;
  for (std::size_t i = 0; i < check::kFaultCount; ++i) {
    const auto fault = static_cast<check::Fault>(i);
    std::uint64_t count = verdict.others.count(fault);
    for (const auto& half : verdict.of_half) {
      count += half.findings.count(fault);
    }
    if (count != 0) {
      line += (line.empty() ? "" : ", ") + std::string(name(fault)) + " " + std::to_string(count);
    }
  }
  return line;
}

}  // namespace uroce::test
