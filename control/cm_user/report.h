#pragma once

// What `uroce cm` shows: who listens where, which connections there are, and what the protocol
// counted.

#include <nlohmann/json.hpp>

namespace uroce::control::cm_user {

class Service;

nlohmann::ordered_json report(const Service& service);

}  // namespace uroce::control::cm_user
