// The connections of a real peer (Linux's RDMA CM on rxe), played again with our manager in the
// place of each side. What we say must be what the recorded side said, byte by byte, but for what
// legitimately differs:
//
//   transaction id     who begins an exchange chooses it: of a REQ, and of a DREQ
//   communication id   each side draws its own
//   starting PSN       each side draws its own (of a REQ we are told which)
//
// tshark, which knows nothing of us, must read in ours what we meant.

#include <gtest/gtest.h>

#include <algorithm>

#include "control/cm/ip_service.h"
#include "control/cm/manager.h"
#include "tests/cm_replay/recording.h"

namespace uroce::test {
namespace {

using namespace control::cm;

constexpr const char* kCaptures[] = {"t_rping", "t_ucmatose", "t_cm_reject", "t_ib_write_bw_cm"};
constexpr Time kNow = 1'000;

// A MAD with what legitimately differs taken from another.
struct Differences {
  std::uint64_t transaction = 0;
  std::uint32_t local_id = 0, remote_id = 0;
  std::optional<std::uint32_t> starting_psn;
};
Mad with(const Envelope& envelope, const Differences& differences) {
  Message message = envelope.message;
  std::visit(
      [&](auto& value) {
        if constexpr (requires { value.local_id; }) {
          value.local_id = differences.local_id;
        }
        if constexpr (requires { value.remote_id; }) {
          value.remote_id = differences.remote_id;
        }
        if constexpr (requires { value.starting_psn; }) {
          value.starting_psn = differences.starting_psn.value_or(value.starting_psn);
        }
      },
      message);
  return build_mad(differences.transaction, message);
}

class CmReplay : public ::testing::TestWithParam<const char*> {
 protected:
  // What the manager says next. The test fails if that is nothing.
  static Outgoing said(Manager& manager) {
    auto outgoing = manager.next_send();
    EXPECT_TRUE(outgoing.has_value());
    return outgoing.value_or(Outgoing{});
  }
  static Envelope read(const Mad& mad) {
    MadFault fault{};
    return parse_mad(mad, &fault).value_or(Envelope{});
  }
  static Event take_event(Manager& manager, EventKind kind) {
    auto event = manager.next_event();
    EXPECT_TRUE(event.has_value() && event->kind == kind) << "event " << static_cast<int>(kind);
    return event ? std::move(*event) : Event{};
  }
  // From the side that said it.
  static Route route_of(const Recorded& recorded) {
    return {.local = recorded.source, .remote = recorded.destination};
  }
  static Route reverse(const Recorded& recorded) {
    return {.local = recorded.destination, .remote = recorded.source};
  }
};

TEST_P(CmReplay, EachMessageIsBuiltAgainToTheRecordedBytes) {
  std::size_t count = 0;
  for (const Recording& recording : read_recordings(GetParam())) {
    for (const Recorded& recorded : recording.messages) {
      EXPECT_EQ(build_mad(recorded.envelope.transaction, recorded.envelope.message), recorded.bytes)
          << "frame " << recorded.number;
      ++count;
    }
  }
  EXPECT_GE(count, 2U);
}

TEST_P(CmReplay, ThePassiveSideSaysWhatTheRecordedOneSaid) {
  for (const Recording& recording : read_recordings(GetParam())) {
    const Recorded& req = *recording.find<Req>();
    const Req& asked = std::get<Req>(req.envelope.message);
    Manager manager(7);
    if (const Recorded* rej = recording.find<Rej>(); rej != nullptr) {
      manager.on_mad(reverse(req), req.bytes, kNow);  // nobody listens
      EXPECT_EQ(said(manager).mad, rej->bytes);
      continue;
    }
    ASSERT_TRUE(manager.listen({.service_id = asked.service_id}, 0, 1));
    manager.on_mad(reverse(req), req.bytes, kNow);
    const Event request = take_event(manager, EventKind::kRequest);
    const auto header = parse_ip_header(request.private_data);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->source, req.source);
    EXPECT_EQ(header->destination, req.destination);

    const Recorded& rep = *recording.find<Rep>();
    const Rep& answered = std::get<Rep>(rep.envelope.message);
    AcceptParameters parameters;
    parameters.ca_guid = answered.ca_guid;
    parameters.qpn = answered.qpn;
    parameters.responder_resources = answered.responder_resources;
    parameters.initiator_depth = answered.initiator_depth;
    parameters.rnr_retry_count = answered.rnr_retry_count;
    parameters.flow_control = answered.flow_control;
    parameters.private_data = answered.private_data;
    ASSERT_TRUE(manager.accept(request.connection, parameters, kNow));
    const Outgoing ours = said(manager);
    const auto psn = std::get<Rep>(read(ours.mad).message).starting_psn;
    EXPECT_EQ(ours.mad, with(rep.envelope, {.transaction = req.envelope.transaction,
                                            .local_id = request.connection,
                                            .remote_id = asked.local_id,
                                            .starting_psn = psn}));
    EXPECT_EQ(ours.route.remote, req.source);

    const Recorded& rtu = *recording.find<Rtu>();
    const Differences from_peer{.transaction = req.envelope.transaction,
                                .local_id = asked.local_id,
                                .remote_id = request.connection,
                                .starting_psn = {}};
    manager.on_mad(reverse(rtu), with(rtu.envelope, from_peer), kNow);
    take_event(manager, EventKind::kEstablished);
    const auto attributes = *manager.qp_attributes(request.connection, QpState::kRts);
    EXPECT_EQ(attributes.dest_qpn, asked.qpn);
    EXPECT_EQ(attributes.sq_psn, asked.starting_psn);

    const Recorded& dreq = *recording.find<Dreq>();
    const Recorded& drep = *recording.find<Drep>();
    if (dreq.source == req.source) {
      manager.on_mad(reverse(dreq), with(dreq.envelope, from_peer), kNow);
      take_event(manager, EventKind::kDisconnecting);
      ASSERT_TRUE(manager.disconnect(request.connection, {}, kNow));
      EXPECT_EQ(said(manager).mad, with(drep.envelope, {.transaction = from_peer.transaction,
                                                        .local_id = request.connection,
                                                        .remote_id = asked.local_id,
                                                        .starting_psn = {}}));
    } else {
      ASSERT_TRUE(manager.disconnect(request.connection, {}, kNow));
      const Outgoing bye = said(manager);
      EXPECT_EQ(bye.mad, with(dreq.envelope, {.transaction = read(bye.mad).transaction,
                                              .local_id = request.connection,
                                              .remote_id = asked.local_id,
                                              .starting_psn = {}}));
      manager.on_mad(reverse(drep), with(drep.envelope, from_peer), kNow);
      take_event(manager, EventKind::kDisconnected);
    }
  }
}

ConnectParameters parameters_of(const Recorded& recorded) {
  const Req& req = std::get<Req>(recorded.envelope.message);
  ConnectParameters parameters;
  parameters.route = {.local = recorded.source,
                      .remote = recorded.destination,
                      .flow_label = req.primary.flow_label,
                      .traffic_class = req.primary.traffic_class,
                      .hop_limit = req.primary.hop_limit};
  parameters.service_id = req.service_id;
  parameters.ca_guid = req.ca_guid;
  parameters.qpn = req.qpn;
  parameters.starting_psn = req.starting_psn;
  parameters.responder_resources = req.responder_resources;
  parameters.initiator_depth = req.initiator_depth;
  parameters.flow_control = req.flow_control;
  parameters.retry_count = req.retry_count;
  parameters.rnr_retry_count = req.rnr_retry_count;
  parameters.path_mtu = req.path_mtu;
  parameters.private_data = req.private_data;
  return parameters;  // and the defaults of the rest are Linux's
}

TEST_P(CmReplay, TheActiveSideSaysWhatTheRecordedOneSaid) {
  for (const Recording& recording : read_recordings(GetParam())) {
    const Recorded& req = *recording.find<Req>();
    Manager manager(7);
    const ConnectionId id = *manager.connect(parameters_of(req), kNow);
    const Outgoing ours = said(manager);
    const std::uint64_t transaction = read(ours.mad).transaction;
    EXPECT_EQ(
        ours.mad,
        with(req.envelope,
             {.transaction = transaction, .local_id = id, .remote_id = 0, .starting_psn = {}}));
    if (const Recorded* rej = recording.find<Rej>(); rej != nullptr) {
      manager.on_mad(
          reverse(*rej),
          with(rej->envelope,
               {.transaction = transaction, .local_id = 0, .remote_id = id, .starting_psn = {}}),
          kNow);
      EXPECT_EQ(take_event(manager, EventKind::kRejected).reason, RejectReason::kInvalidServiceId);
      continue;
    }
    const Recorded& rep = *recording.find<Rep>();
    const Rep& answered = std::get<Rep>(rep.envelope.message);
    const Differences from_peer{.transaction = transaction,
                                .local_id = answered.local_id,
                                .remote_id = id,
                                .starting_psn = {}};
    const Differences from_us{.transaction = transaction,
                              .local_id = id,
                              .remote_id = answered.local_id,
                              .starting_psn = {}};
    manager.on_mad(reverse(rep), with(rep.envelope, from_peer), kNow);
    take_event(manager, EventKind::kReply);
    ASSERT_TRUE(manager.ready(id, {}, kNow));
    EXPECT_EQ(said(manager).mad, with(recording.find<Rtu>()->envelope, from_us));

    const Recorded& dreq = *recording.find<Dreq>();
    const Recorded& drep = *recording.find<Drep>();
    if (dreq.source == req.source) {
      // Linux's transaction ids come from the connection, so its DREQ has the REQ's; so do ours.
      ASSERT_TRUE(manager.disconnect(id, {}, kNow));
      EXPECT_EQ(said(manager).mad, with(dreq.envelope, from_us));
      manager.on_mad(reverse(drep), with(drep.envelope, from_peer), kNow);
      take_event(manager, EventKind::kDisconnected);
    } else {
      Differences of_dreq = from_peer;
      of_dreq.transaction = dreq.envelope.transaction;
      manager.on_mad(reverse(dreq), with(dreq.envelope, of_dreq), kNow);
      take_event(manager, EventKind::kDisconnecting);
      ASSERT_TRUE(manager.disconnect(id, {}, kNow));
      Differences of_drep = from_us;
      of_drep.transaction = dreq.envelope.transaction;
      EXPECT_EQ(said(manager).mad, with(drep.envelope, of_drep));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Captures, CmReplay, ::testing::ValuesIn(kCaptures),
                         [](const auto& capture) { return std::string(capture.param); });

}  // namespace
}  // namespace uroce::test
