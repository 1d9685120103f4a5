// Stores that a responder collects for the slow way: they are executed with their own message or
// not at all, and never to memory that has been deregistered meanwhile. The test plays the helpers:
// they copy on its command.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "dataplane/qp/failure.h"
#include "mmu/proc_mem/proc_mem_thread.h"
#include "tests/qp/rig.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kIovaA = 0x10'0000;
constexpr std::uint64_t kIovaB = 0x20'0000;
constexpr std::size_t kRegionBytes = 4'096;
constexpr std::uint32_t kMtu = 1'024;  // the rig's

class Helpers final : public FaultSink {
 public:
  bool raise(const FaultRequest& /*request*/, const Region& /*region*/, std::uint32_t /*qpn*/,
             FaultRole /*role*/, std::uint32_t /*ticket*/) override {
    return false;
  }
  bool flush(const FlushRequest& /*request*/, const Region& /*region*/, std::uint32_t /*qpn*/,
             FaultRole /*role*/, std::uint32_t /*ticket*/) override {
    return false;
  }
  bool copy(std::unique_ptr<ProcMemCopy>* copy) override {
    given.push_back(std::move(*copy));
    return true;
  }
  [[nodiscard]] Duration usual_time() const override { return 0; }
  std::vector<std::unique_ptr<ProcMemCopy>> given;
};

class SlowStores : public testing::Test {
 protected:
  void given(QpType type) {
    memory_a_.assign(kRegionBytes, std::byte{0});
    memory_b_ = memory_a_;
    rig_ = std::make_unique<QpRig>(QpRig::Options{.type = type});
    rig_->faults = &helpers_;
    key_a_ = rig_->keys.add(slow_region(memory_a_, kIovaA)).value();
    key_b_ = rig_->keys.add(slow_region(memory_b_, kIovaB)).value();
  }
  std::unique_ptr<Region> slow_region(Bytes& memory, std::uint64_t iova) {
    const auto address = reinterpret_cast<std::uint64_t>(memory.data());
    Region::Config config;
    config.pd = QpRig::kPd;
    config.access = kAccessLocalWrite | kAccessRemoteWrite;
    config.iova = iova;
    config.length = memory.size();
    config.pieces = {{.start = 0, .length = memory.size(), .remote_address = address}};
    config.program = program_;
    config.program_address = address;
    return std::make_unique<Region>(std::move(config));
  }

  Step write(Opcode opcode, std::uint32_t psn, std::uint32_t bytes, const Reth& reth = {}) {
    return rig_->receive({.opcode = opcode, .psn = psn, .reth = reth}, pattern(psn, bytes));
  }
  [[nodiscard]] Reth to_a(std::uint32_t bytes) const {
    return {.address = kIovaA, .rkey = key_a_, .length = bytes};
  }
  // The only packet of a message, to b: the helpers execute its stores, and no others.
  void expect_stored_alone(std::uint32_t psn) {
    const Reth reth{.address = kIovaB, .rkey = key_b_, .length = 8};
    EXPECT_EQ(write(Opcode::kUcWriteOnly, psn, 8, reth), Step::kParked);
    copy();
    EXPECT_EQ(write(Opcode::kUcWriteOnly, psn, 8, reth), Step::kDone);
    EXPECT_EQ(rig_->last_drop(), Drop::kNone);
    EXPECT_EQ(memory_a_, Bytes(kRegionBytes));
    EXPECT_TRUE(starts_with(memory_b_, pattern(psn, 8)));
  }
  static bool starts_with(const Bytes& memory, const Bytes& start) {
    return std::equal(start.begin(), start.end(), memory.begin());
  }

  // The helpers execute their copies, and the queue pair goes on.
  void copy() {
    for (auto& copy : std::exchange(helpers_.given, {})) {
      const std::byte* from = copy->bytes.get();
      for (const ProcMemCopy::Segment& segment : copy->segments) {
        std::memcpy(reinterpret_cast<void*>(segment.address), from, segment.length);
        from += segment.length;
      }
      rig_->qp().take_copy(std::move(copy));
    }
    Turn turn = rig_->turn();
    rig_->qp().resume(turn);
  }

  std::shared_ptr<ProcMemThread> program_ =
      ProcMemThread::start(std::make_shared<const UniqueFd>(), {.uid = ::getuid()}).value();
  Helpers helpers_;
  Bytes memory_a_, memory_b_;
  std::unique_ptr<QpRig> rig_;
  std::uint32_t key_a_ = 0, key_b_ = 0;
};

// IBTA vol. 1, 9.8.2.2: such a message is dropped as a whole.
TEST_F(SlowStores, AMessageWithALostPacketIsNotStoredWithTheNext) {
  given(QpType::kUc);
  EXPECT_EQ(write(Opcode::kUcWriteFirst, 100, kMtu, to_a(3 * kMtu)), Step::kDone);
  EXPECT_EQ(write(Opcode::kUcWriteLast, 102, kMtu), Step::kDone);
  EXPECT_EQ(rig_->last_drop(), Drop::kOutOfSequence);
  rig_->remove_region(key_a_);
  expect_stored_alone(103);
}

TEST_F(SlowStores, AMessageCutShortByAnotherIsNotStoredWithIt) {
  given(QpType::kUc);
  EXPECT_EQ(write(Opcode::kUcWriteFirst, 100, kMtu, to_a(3 * kMtu)), Step::kDone);
  rig_->remove_region(key_a_);
  expect_stored_alone(103);
}

TEST_F(SlowStores, AMessageThatIsRefusedIsNotStoredWithTheNext) {
  given(QpType::kUc);
  EXPECT_EQ(write(Opcode::kUcWriteFirst, 100, kMtu, to_a(2 * kMtu)), Step::kDone);
  EXPECT_EQ(write(Opcode::kUcWriteLast, 101, 8), Step::kDone);
  EXPECT_EQ(rig_->last_drop(), Drop::kRequestRefused);
  rig_->remove_region(key_a_);
  expect_stored_alone(102);
}

// The last packet of a message waits for its stores, and continues when it is given again.
TEST_F(SlowStores, AMessageThatHadToWaitIsStored) {
  given(QpType::kUc);
  EXPECT_EQ(write(Opcode::kUcWriteFirst, 100, kMtu, to_a(2 * kMtu)), Step::kDone);
  EXPECT_EQ(write(Opcode::kUcWriteLast, 101, kMtu), Step::kParked);
  copy();
  EXPECT_EQ(write(Opcode::kUcWriteLast, 101, kMtu), Step::kDone);
  EXPECT_EQ(rig_->last_drop(), Drop::kNone);
  EXPECT_TRUE(helpers_.given.empty());
  EXPECT_TRUE(starts_with(memory_a_, pattern(100, kMtu)));
}

TEST_F(SlowStores, ADroppedParkedMessageIsNotMistakenForTheNext) {
  given(QpType::kUc);
  rig_->receives.post_receive(1, std::array{abi::Sge{kIovaA, 64, key_a_}});
  const auto send = [&](std::uint32_t psn) {
    return rig_->receive({.opcode = Opcode::kUcSendOnly, .psn = psn}, pattern(psn, 8));
  };
  EXPECT_EQ(send(100), Step::kParked);
  Turn turn = rig_->turn();
  rig_->qp().on_parked_dropped(turn);
  copy();
  EXPECT_EQ(send(101), Step::kParked);
  copy();
  EXPECT_EQ(send(101), Step::kDone);
  EXPECT_TRUE(rig_->receive_completions.poll());
  EXPECT_TRUE(starts_with(memory_a_, pattern(101, 8)));
}

// A retransmission has the same content.
TEST_F(SlowStores, ARetransmissionIsStoredOnce) {
  given(QpType::kRc);
  EXPECT_EQ(write(Opcode::kRcWriteOnly, 100, 8, to_a(8)), Step::kParked);
  Turn turn = rig_->turn();
  rig_->qp().on_parked_dropped(turn);
  copy();
  EXPECT_EQ(write(Opcode::kRcWriteOnly, 100, 8, to_a(8)), Step::kDone);
  EXPECT_TRUE(helpers_.given.empty());
}

// Packets after those that filled a buffer don't look up its key.
TEST_F(SlowStores, ABufferThatWasDeregisteredFailsTheReceive) {
  given(QpType::kRc);
  rig_->receives.post_receive(
      1, std::array{abi::Sge{kIovaA, kMtu, key_a_}, abi::Sge{kIovaB, kMtu, key_b_}});
  EXPECT_EQ(write(Opcode::kRcSendFirst, 100, kMtu), Step::kDone);
  rig_->remove_region(key_a_);
  EXPECT_EQ(write(Opcode::kRcSendLast, 101, kMtu), Step::kDone);
  EXPECT_TRUE(helpers_.given.empty());
  const auto received = rig_->receive_completions.poll();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->status, abi::WcStatus::kLocProtErr);
  EXPECT_EQ(received->vendor_err, static_cast<std::uint32_t>(Failure::kReceiveKey));
}

// ibv_rereg_mr keeps the key, but the memory may be different.
TEST_F(SlowStores, AReregisteredRegionFailsTheRequest) {
  given(QpType::kRc);
  EXPECT_EQ(write(Opcode::kRcWriteFirst, 100, kMtu, to_a(2 * kMtu)), Step::kDone);
  Bytes other(kRegionBytes);
  ASSERT_TRUE(rig_->keys.replace(key_a_, slow_region(other, kIovaA)));
  EXPECT_EQ(write(Opcode::kRcWriteLast, 101, kMtu), Step::kDone);
  EXPECT_TRUE(helpers_.given.empty());
  EXPECT_EQ(rig_->qp().state(), QpState::kErr);
}

}  // namespace
}  // namespace uroce::test
