#include "control/reports/limits_report.h"

#include <nlohmann/json.hpp>

namespace uroce::control {
namespace {

using Json = nlohmann::ordered_json;

Json account_json(const Shares& shares, const Account& account) {
  Json limits = Json::array();
  for (std::size_t i = 0; i < kLimitCount; ++i) {
    const auto limit = static_cast<Limit>(i);
    limits.push_back({{"name", facts_of(limit).name},
                      {"used", account.used(limit)},
                      {"allowed", account.allowed(limit)},
                      {"maximum", shares.maximum(limit)}});
  }
  return {{"uid", account.user().uid},
          {"user_namespace", account.user().user_namespace},
          {"limits", std::move(limits)}};
}

}  // namespace

std::string limits_text(const Shares& shares, const Peer& reader, const Account& own) {
  Json users = Json::array();
  for (const auto& account : shares.accounts()) {
    if (is_administrator(reader) || account.get() == &own) {
      users.push_back(account_json(shares, *account));
    }
  }
  return Json{{"users", std::move(users)}}.dump();
}

}  // namespace uroce::control
