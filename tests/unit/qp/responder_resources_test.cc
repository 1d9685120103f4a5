#include "dataplane/qp/responder/responder_resources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace uroce::test {
namespace {

Resource read_at(std::uint32_t psn, std::uint32_t packets = 1) {
  return {.psn_first = psn, .packets = packets, .packet_end = packets};
}

void answer_all(ResourceRing& ring) {
  while (Resource* resource = ring.next_pending()) {
    ring.answered(*resource);
  }
}

TEST(ResourceRing, LimitOfZeroRefusesAll) {
  ResourceRing ring;
  ring.resize(0);
  EXPECT_TRUE(ring.full());
  EXPECT_EQ(ring.next_pending(), nullptr);
}

TEST(ResourceRing, FillsUpWithUnansweredOnes) {
  ResourceRing ring;
  ring.resize(3);
  for (std::uint32_t psn = 0; psn < 3; ++psn) {
    ASSERT_FALSE(ring.full());
    ring.push(read_at(psn));
  }
  EXPECT_TRUE(ring.full());
  ring.answered(*ring.next_pending());
  EXPECT_FALSE(ring.full());
}

TEST(ResourceRing, FindsByAnyPsnOfTheResponseAlsoAcrossTheWrap) {
  ResourceRing ring;
  ring.resize(2);
  ring.push(read_at(kPsnMask - 1, 4));
  EXPECT_EQ(ring.find(kPsnMask - 2), nullptr);
  EXPECT_NE(ring.find(kPsnMask - 1), nullptr);
  EXPECT_NE(ring.find(1), nullptr);
  EXPECT_EQ(ring.find(2), nullptr);
}

TEST(ResourceRing, FindsTheNewestOfTwoWithOnePsn) {
  ResourceRing ring;
  ring.resize(2);
  ring.push(read_at(7));
  ring.push(read_at(7, 2));
  EXPECT_EQ(ring.find(7)->packets, 2U);
}

TEST(ResourceRing, ReplaysComeInPsnOrder) {
  ResourceRing ring;
  ring.resize(4);
  for (std::uint32_t psn = 0; psn < 4; ++psn) {
    ring.push(read_at(psn));
  }
  answer_all(ring);
  ring.replay(*ring.find(3), 0, 0, 1);
  ring.replay(*ring.find(1), 0, 0, 1);
  ASSERT_NE(ring.next_pending(), nullptr);
  EXPECT_EQ(ring.next_pending()->psn_first, 1U);
  ring.answered(*ring.next_pending());
  EXPECT_EQ(ring.next_pending()->psn_first, 3U);
  ring.answered(*ring.next_pending());
  EXPECT_FALSE(ring.any_pending());
}

TEST(ResourceRing, ReplayOfAnUnansweredRequestStillAnswersAllOfIt) {
  ResourceRing ring;
  ring.resize(1);
  ring.push({.length_end = 4096, .psn_first = 10, .packets = 4, .packet_end = 4});
  Resource& resource = *ring.next_pending();
  resource.packet_next = 1;
  ring.replay(resource, 2, 3072, 3);
  EXPECT_EQ(resource.packet_next, 1U);
  EXPECT_EQ(resource.packet_end, 4U);
  EXPECT_EQ(resource.length_end, 4096U);
  EXPECT_FALSE(resource.replay);
}

TEST(ResourceRing, ReplayGivesWayToANewRequest) {
  ResourceRing ring;
  ring.resize(1);
  ring.push(read_at(1));
  answer_all(ring);
  ring.replay(*ring.find(1), 0, 0, 1);
  ASSERT_FALSE(ring.full());
  ring.push(read_at(2));
  EXPECT_EQ(ring.next_pending()->psn_first, 2U);
  ring.answered(*ring.next_pending());
  EXPECT_EQ(ring.next_pending(), nullptr);
}

TEST(ResourceRing, ANewLimitKeepsAnswersAndUnansweredRequests) {
  ResourceRing ring;
  ring.resize(4);
  for (std::uint32_t psn = 0; psn < 4; ++psn) {
    ring.push(read_at(psn));
  }
  ring.answered(*ring.next_pending());
  ring.answered(*ring.next_pending());
  ring.resize(4);
  EXPECT_EQ(ring.next_pending(), ring.find(2)) << "the same limit changes nothing";
  EXPECT_NE(ring.find(0), nullptr);
  ring.resize(1);
  EXPECT_EQ(ring.find(1), nullptr) << "answered, and beyond the limit";
  EXPECT_TRUE(ring.full());
  EXPECT_EQ(ring.next_pending(), ring.find(2)) << "still to be answered, though one is the limit";
  ring.answered(*ring.next_pending());
  EXPECT_EQ(ring.next_pending(), ring.find(3));
  ring.resize(8);
  ring.answered(*ring.next_pending());
  EXPECT_FALSE(ring.full());
  EXPECT_NE(ring.find(3), nullptr) << "the answer that the peer may ask for again";
}

// Against a simple model: a list of at most `limit` requests, or of more if they aren't answered
// when the limit changes.
TEST(ResourceRing, BehavesAsAList) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 engine(seed);
    const auto random = [&engine] { return static_cast<std::uint32_t>(engine()); };
    std::uint32_t limit = 1 + random() % 9;
    ResourceRing ring;
    ring.resize(limit);
    struct Model {
      std::uint32_t psn;
      bool pending;
      bool replay;
    };
    std::deque<Model> model;
    std::uint32_t psn = random() & kPsnMask;
    for (int step = 0; step < 500; ++step) {
      if (random() % 16 == 0) {
        limit = random() % 10;
        ring.resize(limit);
        while (model.size() > limit && !model.front().pending) {
          model.pop_front();
        }
      }
      const bool full =
          limit == 0 || (model.size() >= limit && model[model.size() - limit].pending &&
                         !model[model.size() - limit].replay);
      ASSERT_EQ(ring.full(), full) << "seed " << seed;
      const auto next = std::find_if(model.begin(), model.end(),
                                     [](const Model& entry) { return entry.pending; });
      Resource* pending = ring.next_pending();
      ASSERT_EQ(pending != nullptr, next != model.end()) << "seed " << seed;
      if (pending != nullptr) {
        ASSERT_EQ(pending->psn_first, next->psn) << "seed " << seed;
      }
      const std::uint32_t choice = random() % 3;
      if (choice == 0 && !full) {
        psn = psn_add(psn, 1);
        ring.push(read_at(psn));
        model.push_back({psn, true, false});
        while (model.size() > limit) {
          model.pop_front();
        }
      } else if (choice == 1 && pending != nullptr) {
        ring.answered(*pending);
        next->pending = false;
      } else if (choice == 2 && !model.empty()) {
        Model& entry = model[random() % model.size()];
        Resource* found = ring.find(entry.psn);
        ASSERT_NE(found, nullptr) << "seed " << seed;
        ring.replay(*found, 0, 0, 1);
        entry.replay = entry.replay || !entry.pending;
        entry.pending = true;
      }
    }
  }
}

}  // namespace
}  // namespace uroce::test
