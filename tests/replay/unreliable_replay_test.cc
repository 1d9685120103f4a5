// What a real peer (Linux's rxe) sent over UC and UD, received by ours: each message is delivered
// once, complete, and nothing is answered.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "tests/qp/rig.h"
#include "tests/wire/capture_file.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kReceiveAddress = 0x1000;
constexpr std::uint32_t kGrhLength = 40;

using Packets = std::vector<std::unique_ptr<FrameCopy>>;

// The packets of each destination queue pair.
std::map<std::pair<Gid, std::uint32_t>, Packets> receivers_of(const std::vector<Bytes>& frames) {
  std::map<std::pair<Gid, std::uint32_t>, Packets> receivers;
  for (const Bytes& bytes : frames) {
    auto copy = std::make_unique<FrameCopy>(bytes);
    EXPECT_EQ(parse(copy->frame), Drop::kNone);
    const Packet& packet = copy->frame.packet;
    receivers[{packet.destination_gid(), packet.dest_qpn}].push_back(std::move(copy));
  }
  return receivers;
}

// The Q_Key of most of the packets: one capture has a wrong one on purpose.
std::uint32_t usual_qkey(const Packets& packets) {
  std::map<std::uint32_t, int> count;
  for (const auto& copy : packets) {
    ++count[copy->frame.packet.deth().qkey];
  }
  return std::max_element(count.begin(), count.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

class UnreliableReplay : public testing::TestWithParam<std::string> {
 protected:
  void given_receiver(const Packets& packets) {
    const Packet& first = packets.front()->frame.packet;
    datagrams_ = opcode_info(first.opcode).transport == Transport::kUd;
    QpRig::Options options;
    options.type = datagrams_ ? QpType::kUd : QpType::kUc;
    QpAttributes& attributes = options.attributes;
    attributes.rq_psn = first.psn;
    attributes.path.source_gid = first.destination_gid();
    attributes.path.destination_gid = first.source_gid();
    attributes.qkey = datagrams_ ? usual_qkey(packets) : 0;
    for (const auto& copy : packets) {
      while (attributes.path_mtu < copy->frame.packet.payload_length) {
        attributes.path_mtu *= 2;
      }
    }
    rig_ = std::make_unique<QpRig>(options);
    receive_key_ = rig_->add_region(receive_, kReceiveAddress, kAccessLocalWrite);
  }

  // The key and the address of a WRITE are the recorded peer's: they are replaced by ours after the
  // ICRC was verified.
  void give_memory(FrameCopy& copy) {
    const Packet& packet = copy.frame.packet;
    const Reth reth = packet.reth();
    written_.assign(reth.length, std::byte{0});
    const std::uint32_t key = __builtin_bswap32(
        rig_->add_region(written_, reth.address, kAccessLocalWrite | kAccessRemoteWrite));
    std::memcpy(copy.bytes.data() + (packet.bth - copy.frame.data) + kBthLength + 8, &key,
                sizeof(key));
  }

  void receive(FrameCopy& copy) {
    const Packet& packet = copy.frame.packet;
    const OpcodeInfo& info = opcode_info(packet.opcode);
    if (rig_->receives.waiting() == 0) {
      const abi::Sge sge{kReceiveAddress, static_cast<std::uint32_t>(receive_.size()),
                         receive_key_};
      rig_->receives.post_receive(1, {&sge, 1});
    }
    if (info.first) {
      message_.clear();
    }
    if (info.has(Extension::kReth)) {
      give_memory(copy);
    }
    message_.insert(message_.end(), packet.payload, packet.payload + packet.payload_length);
    ASSERT_EQ(rig_->receive_parsed(copy.frame), Step::kDone);
    const bool wrong_key = datagrams_ && packet.deth().qkey != rig_->qp().attributes().qkey;
    EXPECT_EQ(rig_->last_drop(), wrong_key ? Drop::kBadQkey : Drop::kNone);
    if (info.last && !wrong_key) {
      expect_message(packet, info);
    }
  }

  void expect_message(const Packet& packet, const OpcodeInfo& info) {
    const bool write = info.operation == Operation::kWrite;
    const std::uint32_t front = datagrams_ ? kGrhLength : 0;
    const Bytes& where = write ? written_ : receive_;
    EXPECT_TRUE(std::equal(message_.begin(), message_.end(), where.begin() + front));
    const auto cqe = rig_->receive_completions.poll();
    if (write && !info.has(Extension::kImmediate)) {
      EXPECT_FALSE(cqe);
      return;
    }
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->status, abi::WcStatus::kSuccess);
    EXPECT_EQ(cqe->byte_len, message_.size() + front);
    if (datagrams_) {
      EXPECT_EQ(cqe->src_qp, packet.deth().source_qpn);
      EXPECT_EQ(std::memcmp(receive_.data() + 20, packet.ip, 20), 0) << "the IPv4 header";
    }
  }

  bool datagrams_ = false;
  std::unique_ptr<QpRig> rig_;
  Bytes receive_ = Bytes(65'536);
  Bytes written_, message_;
  std::uint32_t receive_key_ = 0;
};

TEST_P(UnreliableReplay, IsDeliveredAndNotAnswered) {
  const auto folder = captures_folder();
  ASSERT_TRUE(folder);
  const auto frames = read_capture(*folder / (GetParam() + ".pcap"));
  ASSERT_TRUE(frames);
  for (auto& [receiver, packets] : receivers_of(*frames)) {
    given_receiver(packets);
    for (auto& copy : packets) {
      receive(*copy);
    }
    EXPECT_TRUE(rig_->transmit().empty());
    EXPECT_EQ(rig_->qp().state(), QpState::kRts);
  }
}

INSTANTIATE_TEST_SUITE_P(Captures, UnreliableReplay,
                         testing::Values("uc", "t_ibv_uc_pingpong", "ud", "ud_mtu4096",
                                         "t_ibv_ud_pingpong", "t_ib_send_lat_ud"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace uroce::test
