#include "tests/cm_replay/recording.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/wire/capture_file.h"
#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

using namespace control::cm;

// The two numbers of the connection that a message belongs to; 0 where it names none.
std::pair<std::uint32_t, std::uint32_t> ids_of(const Message& message) {
  return std::visit(
      [](const auto& value) -> std::pair<std::uint32_t, std::uint32_t> {
        if constexpr (requires { value.remote_id; }) {
          return {value.local_id, value.remote_id};
        } else if constexpr (requires { value.local_id; }) {
          return {value.local_id, 0};
        } else {
          return {value.request_id, 0};
        }
      },
      message);
}

bool belongs(const Recording& recording, const Message& message) {
  const auto [req_id, nothing] = ids_of(recording.messages.front().envelope.message);
  const auto [local, remote] = ids_of(message);
  return local == req_id || remote == req_id;
}

}  // namespace

std::vector<Recording> read_recordings(const std::string& capture) {
  const auto folder = captures_folder();
  EXPECT_TRUE(folder.has_value()) << folder.error().message;
  const auto frames = read_capture(*folder / (capture + ".pcap"));
  EXPECT_TRUE(frames.has_value()) << frames.error().message;
  std::vector<Recording> recordings;
  std::size_t number = 0;
  for (const auto& bytes : *frames) {
    ++number;
    OwnedFrame owned(bytes);
    if (parse(owned.frame) != Drop::kNone || owned.frame.packet.dest_qpn != kGsiQpn) {
      continue;
    }
    const Packet& packet = owned.frame.packet;
    MadFault fault{};
    auto envelope = parse_mad({packet.payload, packet.payload_length}, &fault);
    EXPECT_TRUE(envelope.has_value()) << capture << ", frame " << number;
    if (!envelope) {
      continue;
    }
    Recorded recorded{.number = number,
                      .source = packet.source_gid(),
                      .destination = packet.destination_gid(),
                      .envelope = *envelope};
    std::copy_n(packet.payload, kMadBytes, recorded.bytes.begin());
    const auto at = std::find_if(recordings.begin(), recordings.end(), [&](const auto& recording) {
      return belongs(recording, envelope->message);
    });
    if (at == recordings.end()) {
      recordings.push_back({.messages = {recorded}});
    } else {
      at->messages.push_back(recorded);
    }
  }
  EXPECT_FALSE(recordings.empty()) << capture;
  return recordings;
}

std::vector<std::byte> frame_of(const Gid& source, const Gid& destination, const Mad& mad) {
  Path path;
  path.source_mac = {{2, 0, 0, 0, 0, 1}};
  path.destination_mac = {{2, 0, 0, 0, 0, 2}};
  path.source_gid = source;
  path.destination_gid = destination;
  const Headers headers{.opcode = Opcode::kUdSendOnly,
                        .dest_qpn = kGsiQpn,
                        .deth = {.qkey = kGsiQkey, .source_qpn = kGsiQpn}};
  OwnedFrame frame;
  build(frame, path, headers, mad, 1);
  return {frame.bytes().begin(), frame.bytes().end()};
}

}  // namespace uroce::test
