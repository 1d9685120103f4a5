#pragma once

// The services that commands use besides the session. Assembled by the daemon (control/start);
// tests provide their own.

#include <memory>

#include "control/cm_user/service.h"
#include "control/commands/address_follower.h"
#include "control/foreign/helper_pool.h"
#include "control/ip/kernel/kernel_addresses.h"
#include "control/paging/paging_service.h"
#include "control/reports/error_log.h"
#include "control/reports/sampler.h"
#include "control/reports/watchdog.h"
#include "control/sessions/card.h"

namespace uroce::control {

// All outlive the conversations.
struct Services {
  Card& card;
  cm_user::Service& connections;
  KernelAddresses& kernel;
  ErrorLog& errors;
  PagingService* paging = nullptr;       // nullptr: no on-demand paging
  AddressFollower* addresses = nullptr;  // nullptr: no port follows an interface
  const Watchdog* watchdog = nullptr;    // nullptr: the threads aren't watched
  Sampler* sampler = nullptr;            // nullptr: no history is kept
  bool numbers_may_be_chosen = false;    // programs may use kChooseNumbers
  // For operations that a program can delay at will. Control's own pool; the fault thread has
  // another.
  std::shared_ptr<HelperPool> helpers = std::make_shared<HelperPool>();
};

// The connection manager's interface to the card, which outlives it.
cm_user::Host connection_host(Card& card);

}  // namespace uroce::control
