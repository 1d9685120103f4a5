#include "control/reports/unanswered.h"

#include "control/commands/address_changes.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

class Unanswered : public ::testing::Test {
 protected:
  Unanswered() {
    program_.open();
    const Answer made = program_.ask(abi::Command::kCreateQp,
                                     program_.rc_qp(program_.make_pd(), program_.make_cq()));
    QpObject* object = program_.session.qps.find(made.as<abi::CreateQpReply>().handle);
    object->path = Path{};
    object->path->source_gid = kOurs;
    object->path->destination_gid = kPeer;
    report_.failure = Failure::kRetriesExhausted;
    report_.qpn = made.as<abi::CreateQpReply>().qpn;
  }
  std::string why() { return why_unanswered(rig_.card, problems_, report_); }
  void remove_our_address() {
    ASSERT_TRUE(remove_address(rig_.card, rig_.kernel, rig_.card.devices()[0], kOurs));
  }

  const Gid kOurs = *parse_ip("10.0.0.1"), kPeer = *parse_ip("10.0.0.2");
  Rig rig_;
  Program program_{rig_};
  PathProblems problems_;
  FailureReport report_;
};

TEST_F(Unanswered, NothingIsSaidWhereNothingIsKnown) { EXPECT_EQ(why(), ""); }

TEST_F(Unanswered, AnErrorAboutThePathIsQuoted) {
  PathError error;
  error.destination = kPeer;
  problems_.record(error, rig_.card.now());
  EXPECT_EQ(why(), "; and " + to_string(error));
}

TEST_F(Unanswered, OnesOwnAddressWasRemoved) {
  remove_our_address();
  EXPECT_EQ(
      why(),
      "; and 10.0.0.1, this queue pair's own address, is no longer an address of uroce0, so no "
      "answer arrives: connect again from one that `uroce addr` lists, or add it again "
      "(`uroce addr add`; where the port follows an interface, `ip address add`)");
}

TEST_F(Unanswered, OnlyWhereAnAnswerWasMissed) {
  remove_our_address();
  report_.failure = Failure::kNakRemoteAccess;
  EXPECT_EQ(why(), "");
}

}  // namespace
}  // namespace uroce::control
