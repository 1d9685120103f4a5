#include "tests/qp/rig.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "dataplane/wire/address.h"
#include "mmu/copies/copy.h"
#include "tests/reasons/reasons.h"

namespace uroce::test {

BatchFrames::BatchFrames(std::uint32_t count, std::uint32_t capacity)
    : buffers_(std::make_unique_for_overwrite<std::byte[]>(std::size_t{count} * capacity)),
      frames_(count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    frames_[i].data = buffers_.get() + std::size_t{i} * capacity;
    frames_[i].capacity = capacity;
    free_.push_back(&frames_[i]);
  }
}

void BatchFrames::fill(TxBatch& batch) {
  while (batch.wanted() != 0 && !free_.empty()) {
    *batch.free_tail() = free_.back();
    free_.pop_back();
    batch.added(1);
  }
}

void BatchFrames::take_back(TxBatch& batch) {
  free_.insert(free_.end(), batch.ready(), batch.ready() + batch.ready_count());
  batch.sent(batch.ready_count());
}

Path local_path() {
  Path path;
  path.source_mac = {{0x02, 0, 0, 0, 0, 1}};
  path.destination_mac = {{0x02, 0, 0, 0, 0, 2}};
  path.source_gid = *parse_ip("10.77.0.2");
  path.destination_gid = *parse_ip("10.77.0.3");
  return path;
}

Path peer_path() {
  Path path = local_path();
  std::swap(path.source_mac, path.destination_mac);
  std::swap(path.source_gid, path.destination_gid);
  return path;
}

Bytes pattern(std::uint32_t seed, std::size_t length) {
  Bytes bytes(length);
  for (std::size_t i = 0; i < length; ++i) {
    bytes[i] = static_cast<std::byte>(seed * 37 + i * 7 + (i >> 8U) * 3);
  }
  return bytes;
}

FrameCopy::FrameCopy(std::span<const std::byte> from) : bytes(from.begin(), from.end()) {
  frame.data = bytes.data();
  frame.length = static_cast<std::uint32_t>(bytes.size());
  frame.capacity = frame.length;
}

QpAttributes QpRig::default_attributes() {
  QpAttributes attributes;
  attributes.path_mtu = 1024;
  attributes.rq_psn = 100;
  attributes.sq_psn = 5000;
  attributes.dest_qpn = kPeerQpn;
  attributes.qkey = 0x1111'1111;
  attributes.access = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
  attributes.max_rd_atomic = 4;
  attributes.max_dest_rd_atomic = 4;
  attributes.min_rnr_timer = 12;
  attributes.timeout = 14;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.path = local_path();
  return attributes;
}

QpRig::QpRig() : QpRig(Options{}) {}

QpRig::QpRig(const Options& options)
    : keys(quiescence, 1024, 1),
      send_completions(options.cq_entries),
      receive_completions(options.cq_entries),
      receives(options.receive_entries, abi::recv_stride(options.sge_max)),
      sends(options.send_entries, abi::send_stride(options.sge_max, options.inline_max)),
      send_cq({.handle = 1,
               .control = &send_completions.control,
               .entries = send_completions.entries.data(),
               .entry_count = options.cq_entries,
               .event_cookie = 1}),
      receive_cq({.handle = 2,
                  .control = &receive_completions.control,
                  .entries = receive_completions.entries.data(),
                  .entry_count = options.cq_entries,
                  .event_cookie = 2}),
      receive_queue({.handle = 3,
                     .control = &receives.control,
                     .entries = receives.entries.data(),
                     .entry_count = receives.entry_count,
                     .stride = receives.stride,
                     .sge_max = options.sge_max,
                     .users = options.shared_receive_queue || options.type == QpType::kXrcRecv
                                  ? ReceiveQueue::Users::kOneWorker
                                  : ReceiveQueue::Users::kOneQp}),
      pool_(TxBatch::kFramesMax),
      attributes_(options.attributes),
      peer_template_(peer_path()) {
  install_copy_guard();
  QpConfig config;
  config.qpn = kQpn;
  config.type = options.type;
  config.addresses = options.addresses;
  config.pd = kPd;
  config.send_sge_max = options.sge_max;
  config.inline_max = options.inline_max;
  config.send_control = &sends.control;
  config.send_entries = sends.entries.data();
  config.send_entry_count = sends.entry_count;
  config.send_stride = sends.stride;
  config.receive_queue = &receive_queue;
  config.receive_queue_shared = options.shared_receive_queue;
  config.send_cq = &send_cq;
  config.recv_cq = &receive_cq;
  if (options.type == QpType::kXrcRecv) {
    config.pd = 0;
    config.send_control = nullptr;
    config.send_entry_count = 0;
    config.receive_queue = nullptr;
    config.send_cq = nullptr;
    config.recv_cq = nullptr;
    config.xrc_domain = &xrc_domain;
    xrc_domain.add(
        {.number = kSrqn, .pd = kPd, .queue = &receive_queue, .completions = &receive_cq});
  }
  qp_ = std::make_unique<Qp>(config);
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    if (state <= options.state) {
      to_state(state);
    }
  }
}

void QpRig::to_state(QpState state) {
  QpAttributes attributes = attributes_;
  attributes.state = state;
  // Control passes each attribute with the transition that needs it.
  std::uint32_t mask = kQpMaskState;
  switch (state) {
    case QpState::kInit:
      mask |= kQpMaskAccess | kQpMaskPkeyIndex | kQpMaskQkey;
      break;
    case QpState::kRtr:
      mask |= kQpMaskPath | kQpMaskPathMtu | kQpMaskDestQpn | kQpMaskRqPsn |
              kQpMaskMaxDestRdAtomic | kQpMaskMinRnrTimer;
      break;
    case QpState::kRts:
      if (qp_->state() == QpState::kRtr) {
        mask |=
            kQpMaskSqPsn | kQpMaskTimeout | kQpMaskRetryCnt | kQpMaskRnrRetry | kQpMaskMaxRdAtomic;
      }
      break;
    default:
      break;
  }
  Turn now_turn = turn();
  qp_->modify(attributes, mask, now_turn);
}

void QpRig::doorbell() {
  Turn now_turn = turn();
  qp_->on_doorbell(now_turn);
}

std::uint32_t QpRig::add_region(std::span<std::byte> memory, std::uint64_t iova,
                                std::uint32_t access, PdId pd) {
  Region::Config config;
  config.pd = pd;
  config.access = access;
  config.iova = iova;
  config.length = memory.size();
  config.pieces = {{.start = 0,
                    .length = memory.size(),
                    .host = memory.data(),
                    .remote_address = reinterpret_cast<std::uint64_t>(memory.data())}};
  return keys.add(std::make_unique<Region>(std::move(config))).value();
}

void QpRig::remove_region(std::uint32_t key) { UROCE_CHECK(keys.remove(key) != nullptr); }

Bytes QpRig::frame_by(const FrameTemplate& sender, const Headers& headers,
                      std::span<const std::byte> payload) {
  Bytes buffer(4608);
  Frame frame;
  frame.data = buffer.data();
  frame.capacity = static_cast<std::uint32_t>(buffer.size());
  FrameWriter writer(frame, sender, headers, static_cast<std::uint32_t>(payload.size()), 1);
  writer.append(payload.data(), payload.size());
  writer.finish();
  buffer.resize(frame.length);
  return buffer;
}

Step QpRig::receive(Headers headers, std::span<const std::byte> payload, bool stranger) {
  headers.dest_qpn = kQpn;
  Path path = peer_path();
  path.source_gid = *parse_ip("10.77.0.99");
  const FrameTemplate sender = stranger ? FrameTemplate(path) : peer_template_;
  return receive_frame(frame_by(sender, headers, payload));
}

void QpRig::receive_if_it_parses(const Headers& headers, std::span<const std::byte> payload) {
  FrameCopy copy(frame_by(peer_template_, headers, payload));
  if (parse(copy.frame) == Drop::kNone) {
    UROCE_CHECK(receive_parsed(copy.frame) == Step::kDone);
  }
}

Step QpRig::receive_frame(std::span<const std::byte> bytes) {
  FrameCopy copy(bytes);
  drop_ = parse(copy.frame);
  UROCE_CHECK(drop_ == Drop::kNone);
  return receive_parsed(copy.frame);
}

Step QpRig::receive_parsed(const Frame& frame) {
  Turn now_turn = turn();
  const Step step = qp_->receive(frame, now_turn, &drop_);
  note(drop_);
  note_received(frame.packet);
  return step;
}

std::vector<SentPacket> QpRig::transmit(std::uint32_t bytes_max, std::uint32_t frames_max) {
  std::vector<SentPacket> sent;
  while (qp_->has_work() && sent.size() < frames_max) {
    pool_.fill(tx_);
    if (transmit_once(bytes_max) == 0) {
      break;
    }
    for (std::uint32_t i = 0; i < tx_.ready_count(); ++i) {
      const Frame& frame = *tx_.ready()[i];
      SentPacket& packet = sent.emplace_back();
      packet.bytes.assign(frame.data, frame.data + frame.length);
    }
    pool_.take_back(tx_);
  }
  for (SentPacket& packet : sent) {
    packet.frame.data = packet.bytes.data();
    packet.frame.length = static_cast<std::uint32_t>(packet.bytes.size());
    UROCE_CHECK(parse(packet.frame) == Drop::kNone);
    note_sent(packet.packet());
  }
  return sent;
}

std::uint32_t QpRig::transmit_once(std::uint32_t bytes_max) {
  pool_.fill(tx_);
  Turn now_turn = turn();
  return qp_->transmit(now_turn, bytes_max);
}

}  // namespace uroce::test
