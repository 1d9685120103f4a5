#include "tests/replay/replayer.h"

#include <algorithm>
#include <cstring>

namespace uroce::test {
namespace {

struct Asked {
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  std::uint32_t length = 0;
};

bool is_atomic(const Packet& packet) {
  return opcode_info(packet.opcode).has(Extension::kAtomicEth);
}

bool names_memory(const Packet& packet) {
  return opcode_info(packet.opcode).has(Extension::kReth) || is_atomic(packet);
}

// REQUIRES: names_memory(packet)
Asked asked(const Packet& packet) {
  if (is_atomic(packet)) {
    const AtomicEth eth = packet.atomic_eth();
    return {.rkey = eth.rkey, .address = eth.address, .length = 8};
  }
  const Reth reth = packet.reth();
  return {.rkey = reth.rkey, .address = reth.address, .length = reth.length};
}

}  // namespace

Replayer::Replayer(const Flow& flow, Circumstances circumstances)
    : flow_(flow),
      circumstances_(std::move(circumstances)),
      receive_buffer_(circumstances_.receive_length) {
  find_regions();
  fill_from_answers();
  make_queue_pair();
}

void Replayer::find_regions() {
  for (const Record& record : flow_.records) {
    if (!record.request || !names_memory(record.packet())) {
      continue;
    }
    const Asked range = asked(record.packet());
    auto [found, fresh] = memories_.try_emplace(range.rkey);
    Memory& memory = found->second;
    memory.start = fresh ? range.address : std::min(memory.start, range.address);
    memory.end = std::max(memory.end, range.address + range.length);
  }
  for (auto& [rkey, memory] : memories_) {
    // Atomics want their 8 bytes aligned in our memory as well.
    memory.start &= ~std::uint64_t{63};
    memory.bytes.resize(memory.end - memory.start);
  }
}

// The first request finds what was there at the start, and what the flow's WRITEs and atomics have
// made of it by then; so the later ones must change nothing.
void Replayer::fill_from_answers() {
  for (std::size_t i = flow_.records.size(); i-- > 0;) {
    fill_from_answer(i);
  }
}

void Replayer::fill_from_answer(std::size_t request) {
  if (!flow_.records[request].request) {
    return;
  }
  const Packet& packet = flow_.records[request].packet();
  if (packet.opcode == Opcode::kRcReadRequest) {
    fill_from_read(request);
  } else if (is_atomic(packet)) {
    fill_from_atomic(request);
  }
}

void Replayer::fill_from_read(std::size_t request) {
  const Packet& packet = flow_.records[request].packet();
  const Asked range = asked(packet);
  const std::uint32_t packets = std::max(1U, (range.length + flow_.mtu - 1) / flow_.mtu);
  std::vector<bool> seen(packets);
  Memory& memory = memories_[range.rkey];
  for (std::size_t i = request + 1; i < flow_.records.size(); ++i) {
    const Packet& answer = flow_.records[i].packet();
    const std::uint32_t place = (answer.psn - packet.psn) & kPsnMask;
    if (opcode_info(answer.opcode).operation != Operation::kReadResponse || place >= packets ||
        seen[place]) {
      continue;
    }
    seen[place] = true;
    std::memcpy(
        memory.bytes.data() + (range.address - memory.start) + std::size_t{place} * flow_.mtu,
        answer.payload, answer.payload_length);
  }
}

void Replayer::fill_from_atomic(std::size_t request) {
  const Packet& packet = flow_.records[request].packet();
  const Asked range = asked(packet);
  for (std::size_t i = request + 1; i < flow_.records.size(); ++i) {
    const Packet& answer = flow_.records[i].packet();
    if (answer.opcode == Opcode::kRcAtomicAcknowledge && answer.psn == packet.psn) {
      const std::uint64_t original = answer.atomic_ack();
      Memory& memory = memories_[range.rkey];
      std::memcpy(memory.bytes.data() + (range.address - memory.start), &original,
                  sizeof(original));
      return;
    }
  }
}

void Replayer::make_queue_pair() {
  QpRig::Options options;
  QpAttributes& attributes = options.attributes;
  attributes.path_mtu = flow_.mtu;
  attributes.dest_qpn = flow_.peer_qpn;
  attributes.path.source_gid = flow_.local;
  attributes.path.destination_gid = flow_.peer;
  attributes.max_dest_rd_atomic = 128;
  for (const Record& record : flow_.records) {
    if (record.request) {
      attributes.rq_psn = record.packet().psn;
      break;
    }
  }
  for (const Record& record : flow_.records) {
    if (record.packet().opcode == Opcode::kRcAcknowledge &&
        (record.packet().aeth().syndrome & 0xE0U) == kSyndromeRnr) {
      attributes.min_rnr_timer = record.packet().aeth().syndrome & 0x1FU;
    }
  }
  rig_ = std::make_unique<QpRig>(options);
  receive_key_ = rig_->add_region(receive_buffer_, 0x1000, kAccessLocalWrite);
  if (circumstances_.regions) {
    for (auto& [rkey, memory] : memories_) {
      const std::span bytes(memory.bytes.data(), memory.bytes.size() - circumstances_.region_cut);
      memory.key = rig_->add_region(bytes, memory.start, circumstances_.region_access);
    }
  }
}

// Whether this very packet drew an RNR NAK: one comes before the packet comes again.
bool Replayer::draws_rnr_nak(std::size_t request) const {
  const std::uint32_t psn = flow_.records[request].packet().psn;
  for (std::size_t i = request + 1; i < flow_.records.size(); ++i) {
    const Record& record = flow_.records[i];
    if (record.packet().psn != psn) {
      continue;
    }
    if (record.request) {
      return false;
    }
    if (record.packet().opcode == Opcode::kRcAcknowledge &&
        (record.packet().aeth().syndrome & 0xE0U) == kSyndromeRnr) {
      return true;
    }
  }
  return false;
}

void Replayer::supply_receive(std::size_t request) {
  const OpcodeInfo& info = opcode_info(flow_.records[request].packet().opcode);
  const bool takes_one =
      info.operation == Operation::kSend ? info.first : info.has(Extension::kImmediate);
  if (takes_one && rig_->receives.waiting() == 0 && !draws_rnr_nak(request)) {
    const abi::Sge sge{.address = 0x1000,
                       .length = static_cast<std::uint32_t>(receive_buffer_.size()),
                       .lkey = receive_key_};
    rig_->receives.post_receive(request, {&sge, 1});
  }
}

// The keys of our regions are ours: they are put into the packet, after its ICRC was verified.
void Replayer::deliver(const Record& record) {
  FrameCopy copy(record.frame->bytes);
  UROCE_CHECK(parse(copy.frame) == Drop::kNone);
  const Packet& packet = copy.frame.packet;
  if (names_memory(packet)) {
    const std::uint32_t key = __builtin_bswap32(memories_[asked(packet).rkey].key);
    // RETH and AtomicETH come right behind the BTH, both start with the address.
    std::memcpy(copy.bytes.data() + (packet.bth - copy.frame.data) + kBthLength + 8, &key,
                sizeof(key));
  }
  UROCE_CHECK(rig_->receive_parsed(copy.frame) == Step::kDone);
}

std::vector<SentPacket> Replayer::play() {
  std::vector<SentPacket> all;
  for (std::size_t i = 0; i < flow_.records.size(); ++i) {
    const Record& record = flow_.records[i];
    const auto& lost = circumstances_.lost;
    if (!record.request || std::find(lost.begin(), lost.end(), record.number) != lost.end()) {
      continue;
    }
    supply_receive(i);
    if (circumstances_.memory_changes) {
      fill_from_answer(i);
    }
    deliver(record);
    for (SentPacket& packet : rig_->transmit()) {
      all.push_back(std::move(packet));
    }
  }
  return all;
}

}  // namespace uroce::test
