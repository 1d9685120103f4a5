#include "control/sessions/qp_states.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>

#include "abi/verbs_mask.h"

namespace uroce::control {
namespace {

using enum QpState;
using enum abi::VerbsMask;
constexpr QpState kStates[] = {kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr};
constexpr QpType kTypes[] = {QpType::kRc, QpType::kUc, QpType::kUd, QpType::kXrcSend,
                             QpType::kXrcRecv};

using Key = std::tuple<QpType, QpState, QpState>;
struct Masks {
  std::string required, optional;
};

// One letter per attribute, in the order of enum ibv_qp_attr_mask from IBV_QP_STATE (a) on, so that
// the table looks unlike the one under test: b CUR_STATE, c SQD notify, d access, e pkey, f port, g
// qkey, h AV, i path MTU, j timeout, k retry, l rnr retry, m RQ PSN, n max rd, o alt path, p min
// RNR timer, q SQ PSN, r max dest rd, s path mig, t cap, u dest QPN.
std::uint32_t mask_of(const std::string& letters) {
  std::uint32_t mask = 0;
  for (const char letter : letters) {
    mask |= 1U << static_cast<unsigned>(letter - 'a');
  }
  return mask;
}

const std::map<Key, Masks>& oracle() {
  static const std::map<Key, Masks> kTable = {
      {{QpType::kRc, kReset, kInit}, {"def", ""}},
      {{QpType::kUc, kReset, kInit}, {"def", ""}},
      {{QpType::kUd, kReset, kInit}, {"efg", ""}},
      {{QpType::kXrcSend, kReset, kInit}, {"def", ""}},
      {{QpType::kXrcRecv, kReset, kInit}, {"def", ""}},
      {{QpType::kRc, kInit, kInit}, {"", "def"}},
      {{QpType::kUc, kInit, kInit}, {"", "def"}},
      {{QpType::kUd, kInit, kInit}, {"", "efg"}},
      {{QpType::kXrcSend, kInit, kInit}, {"", "def"}},
      {{QpType::kXrcRecv, kInit, kInit}, {"", "def"}},
      {{QpType::kRc, kInit, kRtr}, {"himpru", "deo"}},
      {{QpType::kUc, kInit, kRtr}, {"himu", "deo"}},
      {{QpType::kUd, kInit, kRtr}, {"", "eg"}},
      {{QpType::kXrcSend, kInit, kRtr}, {"himu", "deopr"}},
      {{QpType::kXrcRecv, kInit, kRtr}, {"himpru", "deo"}},
      {{QpType::kRc, kRtr, kRts}, {"jklnq", "bdops"}},
      {{QpType::kUc, kRtr, kRts}, {"q", "bdos"}},
      {{QpType::kUd, kRtr, kRts}, {"q", "bg"}},
      {{QpType::kXrcSend, kRtr, kRts}, {"jklnq", "bdos"}},
      {{QpType::kXrcRecv, kRtr, kRts}, {"jq", "bdklnops"}},
      {{QpType::kRc, kRts, kRts}, {"", "bdops"}},
      {{QpType::kUc, kRts, kRts}, {"", "bdos"}},
      {{QpType::kUd, kRts, kRts}, {"", "bg"}},
      {{QpType::kXrcSend, kRts, kRts}, {"", "bdos"}},
      {{QpType::kXrcRecv, kRts, kRts}, {"", "bdops"}},
      {{QpType::kRc, kRts, kSqd}, {"", "c"}},
      {{QpType::kUc, kRts, kSqd}, {"", "c"}},
      {{QpType::kUd, kRts, kSqd}, {"", "c"}},
      {{QpType::kXrcSend, kRts, kSqd}, {"", "c"}},
      {{QpType::kXrcRecv, kRts, kSqd}, {"", "c"}},
      {{QpType::kRc, kSqd, kRts}, {"", "bdops"}},
      {{QpType::kUc, kSqd, kRts}, {"", "bdos"}},
      {{QpType::kUd, kSqd, kRts}, {"", "bg"}},
      {{QpType::kXrcSend, kSqd, kRts}, {"", "bdos"}},
      {{QpType::kXrcRecv, kSqd, kRts}, {"", "bdops"}},
      {{QpType::kRc, kSqd, kSqd}, {"", "defhjklnoprs"}},
      {{QpType::kUc, kSqd, kSqd}, {"", "dehos"}},
      {{QpType::kUd, kSqd, kSqd}, {"", "eg"}},
      {{QpType::kXrcSend, kSqd, kSqd}, {"", "defhjklnops"}},
      {{QpType::kXrcRecv, kSqd, kSqd}, {"", "defhjoprs"}},
      {{QpType::kRc, kSqe, kRts}, {"", ""}},
      {{QpType::kUc, kSqe, kRts}, {"", "bd"}},
      {{QpType::kUd, kSqe, kRts}, {"", "bg"}},
      {{QpType::kXrcSend, kSqe, kRts}, {"", ""}},
      {{QpType::kXrcRecv, kSqe, kRts}, {"", ""}},
  };
  return kTable;
}

template <typename Visit>
void for_each_transition(Visit visit) {
  for (const QpType type : kTypes) {
    for (const QpState from : kStates) {
      for (const QpState to : kStates) {
        SCOPED_TRACE(std::string(name_of(type)) + " " + name_of(from) + " to " + name_of(to));
        visit(type, from, to);
      }
    }
  }
}

TEST(QpStates, AllowsExactlyTheTransitionsOfTheTable) {
  for_each_transition([](QpType type, QpState from, QpState to) {
    const bool to_rest = to == kReset || (to == kErr && from != kReset);
    const bool listed = oracle().contains({type, from, to});
    EXPECT_EQ(transition_rule(type, from, to) != nullptr, to_rest || listed);
  });
}

TEST(QpStates, RequiresAndAllowsExactlyTheAttributesOfTheTable) {
  for_each_transition([](QpType type, QpState from, QpState to) {
    const TransitionRule* rule = transition_rule(type, from, to);
    if (rule == nullptr) {
      return;
    }
    const auto found = oracle().find({type, from, to});
    const Masks masks = found != oracle().end() ? found->second : Masks{};
    EXPECT_EQ(rule->required, mask_of(masks.required));
    EXPECT_EQ(rule->optional, mask_of(masks.optional));
  });
}

TEST(QpStates, EachMissingOrForbiddenAttributeIsRefused) {
  for_each_transition([](QpType type, QpState from, QpState to) {
    const TransitionRule* rule = transition_rule(type, from, to);
    if (rule == nullptr) {
      EXPECT_FALSE(check_transition(type, from, to, kVerbsState));
      return;
    }
    const std::uint32_t least = rule->required | kVerbsState;
    EXPECT_TRUE(check_transition(type, from, to, least));
    EXPECT_TRUE(check_transition(type, from, to, least | rule->optional));
    for (unsigned bit = 1; bit < 32; ++bit) {
      const std::uint32_t one = 1U << bit;
      if ((rule->required & one) != 0) {
        EXPECT_FALSE(check_transition(type, from, to, least & ~one));
      } else {
        EXPECT_EQ(check_transition(type, from, to, least | one).has_value(),
                  (rule->optional & one) != 0);
      }
    }
  });
}

TEST(QpStates, ErrorsNameTheAttributes) {
  const Status missing = check_transition(QpType::kRc, kReset, kInit, kVerbsState | kVerbsPort);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, EINVAL);
  EXPECT_EQ(missing.error().message,
            "modifying an RC queue pair from RESET to INIT requires IBV_QP_ACCESS_FLAGS, "
            "IBV_QP_PKEY_INDEX");
  const Status forbidden = check_transition(QpType::kRc, kRts, kErr, kVerbsState | kVerbsQkey);
  ASSERT_FALSE(forbidden);
  EXPECT_EQ(forbidden.error().message,
            "modifying an RC queue pair from RTS to ERR doesn't allow IBV_QP_QKEY");
  const Status absent = check_transition(QpType::kRc, kReset, kRts, kVerbsState);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().message, "no transition takes an RC queue pair from RESET to RTS");
}

TEST(QpStates, UnknownTypesAndStatesHaveNoTransitions) {
  EXPECT_EQ(transition_rule(static_cast<QpType>(8), kReset, kInit), nullptr);
  EXPECT_EQ(transition_rule(QpType::kRc, kReset, static_cast<QpState>(7)), nullptr);
}

}  // namespace
}  // namespace uroce::control
