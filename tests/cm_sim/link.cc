#include "tests/cm_sim/link.h"

namespace uroce::sim {
namespace {

constexpr double kLosses[] = {0, 0.05, 0.2, 0.5};
constexpr double kGoodLoss = 0.2;
constexpr double kRepetitions[] = {0, 0.1, 0.3};
constexpr double kLatenesses[] = {0, 0.1, 0.3};
constexpr std::uint32_t kDelayMaxUs = 2'000;
constexpr std::uint32_t kLateMaxMs =
    15'000;  // beyond a retransmission: overtaken by later messages

}  // namespace

Link::Link(Random& random)
    : random_(random),
      loss_(random.pick(kLosses)),
      repetition_(random.pick(kRepetitions)),
      lateness_(random.pick(kLatenesses)),
      good_(loss_ <= kGoodLoss) {}

Time Link::arrival_time(Time now) {
  Time delay = random_.range(20, kDelayMaxUs) * kNanosecondsPerMicrosecond;
  if (random_.chance(lateness_)) {
    ++counts_.late;
    delay += random_.range(1, kLateMaxMs) * kNanosecondsPerMillisecond;
  }
  return now + delay;
}

void Link::send(int to, const control::cm::Outgoing& outgoing, Time now) {
  ++counts_.sent;
  if (!lets_through(now)) {
    ++counts_.lost;
    return;
  }
  on_the_way_.emplace(arrival_time(now), Arrival{to, outgoing});
  if (random_.chance(repetition_)) {
    ++counts_.repeated;
    on_the_way_.emplace(arrival_time(now), Arrival{to, outgoing});
  }
}

Link::Arrival Link::take() {
  Arrival arrival = on_the_way_.begin()->second;
  on_the_way_.erase(on_the_way_.begin());
  return arrival;
}

}  // namespace uroce::sim
