#include "control/reports/session_objects.h"

#include <nlohmann/json.hpp>

#include "mmu/key.h"

namespace uroce::control {
namespace {

using Json = nlohmann::ordered_json;

Json describe_object(const ProtectionDomain& pd) {
  return {{"kind", "pd"}, {"id", pd.id}, {"users", pd.users}};
}

Json describe_object(const CqObject& cq) {
  return {{"kind", "cq"}, {"id", cq.id.number()}, {"entries", cq.entry_count}, {"users", cq.users}};
}

// Without its key, which would give access to anybody who can reach the queue pairs.
Json describe_object(const MemoryRegion& region) {
  return {{"kind", "mr"},
          {"id", key_index(region.key)},
          {"length", region.length},
          {"pd", region.pd != nullptr ? region.pd->id : 0}};
}

// Describes the object at `*handle`, which is advanced; nullopt: there is none.
template <typename Table>
std::string describe_next(const Table& table, std::uint32_t* handle) {
  const auto* object = table.find((*handle)++);
  return object != nullptr ? describe_object(*object).dump() : "";
}

}  // namespace

bool counts_in(const Session& session, std::uint32_t handle, const QpObject& object) {
  if (!object.target) {
    return true;
  }
  const XrcTarget::Handle& first = object.target->handles.front();
  return first.session == &session && first.handle == handle;
}

std::string SessionObjects::next(const Session& session, std::size_t* visits) {
  const auto end = [&] {
    switch (kind_) {
      case Kind::kDomains:
        return session.pds.handles_end();
      case Kind::kQueues:
        return session.cqs.handles_end();
      case Kind::kMemory:
        return session.regions.handles_end();
      case Kind::kEnd:
        break;
    }
    return 0U;
  };
  std::string text;
  for (; !done() && *visits != 0; --*visits) {
    if (handle_ >= end()) {
      kind_ = static_cast<Kind>(static_cast<int>(kind_) + 1);
      handle_ = 0;
      continue;
    }
    const std::string one = kind_ == Kind::kDomains  ? describe_next(session.pds, &handle_)
                            : kind_ == Kind::kQueues ? describe_next(session.cqs, &handle_)
                                                     : describe_next(session.regions, &handle_);
    if (!one.empty()) {
      text += first_ ? one : "," + one;
      first_ = false;
    }
  }
  return text;
}

}  // namespace uroce::control
