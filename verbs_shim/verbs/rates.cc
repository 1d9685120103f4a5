// Static rates: the enumerators of enum ibv_rate as multiples of 2.5 Gb/s and in Mb/s.

#include "verbs_shim/objects/verbs.h"

namespace uroce::shim {
namespace {

struct Rate {
  ibv_rate rate;
  int multiple;  // of 2.5 Gb/s, rounded as the specification's tables do; -1: none
  int mbps;      // data and encoding, as on the wire
};

// In order of speed, for searching by speed.
constexpr Rate kRates[] = {{IBV_RATE_2_5_GBPS, 1, 2'500},       {IBV_RATE_5_GBPS, 2, 5'000},
                           {IBV_RATE_10_GBPS, 4, 10'000},       {IBV_RATE_14_GBPS, 6, 14'062},
                           {IBV_RATE_20_GBPS, 8, 20'000},       {IBV_RATE_25_GBPS, 10, 25'781},
                           {IBV_RATE_28_GBPS, 11, 28'125},      {IBV_RATE_30_GBPS, 12, 30'000},
                           {IBV_RATE_40_GBPS, 16, 40'000},      {IBV_RATE_50_GBPS, 20, 53'125},
                           {IBV_RATE_56_GBPS, 22, 56'250},      {IBV_RATE_60_GBPS, 24, 60'000},
                           {IBV_RATE_80_GBPS, 32, 80'000},      {IBV_RATE_100_GBPS, 40, 103'125},
                           {IBV_RATE_112_GBPS, 45, 112'500},    {IBV_RATE_120_GBPS, 48, 120'000},
                           {IBV_RATE_168_GBPS, 67, 168'750},    {IBV_RATE_200_GBPS, 80, 206'250},
                           {IBV_RATE_300_GBPS, 120, 309'375},   {IBV_RATE_400_GBPS, 160, 425'000},
                           {IBV_RATE_600_GBPS, 240, 637'500},   {IBV_RATE_800_GBPS, 320, 850'000},
                           {IBV_RATE_1200_GBPS, 480, 1'275'000}};

}  // namespace
}  // namespace uroce::shim

using uroce::shim::kRates;

extern "C" {

int ibv_rate_to_mult(ibv_rate rate) {
  for (const auto& row : kRates) {
    if (row.rate == rate) {
      return row.multiple;
    }
  }
  return -1;
}

ibv_rate mult_to_ibv_rate(int multiple) {
  for (const auto& row : kRates) {
    if (row.multiple == multiple) {
      return row.rate;
    }
  }
  return IBV_RATE_MAX;
}

int ibv_rate_to_mbps(ibv_rate rate) {
  for (const auto& row : kRates) {
    if (row.rate == rate) {
      return row.mbps;
    }
  }
  return -1;
}

ibv_rate mbps_to_ibv_rate(int mbps) {
  for (const auto& row : kRates) {
    if (row.mbps == mbps) {
      return row.rate;
    }
  }
  return IBV_RATE_MAX;
}
}
