#pragma once

// Destroys objects, for commands and at the end of a session. REQUIRES: `handle` exists and its
// object has no users. If one throws std::bad_alloc, the object still exists under its handle and
// can be destroyed again: workers release it before the table does. Control thread only.
//
// Those without a handle destroy all of their kind that the session has, at its end, and cost less
// than one after the other.

#include <cstdint>

namespace uroce::control {

class Session;

void remove_qp(Session& session, std::uint32_t handle);
void remove_srq(Session& session, std::uint32_t handle);
void remove_cq(Session& session, std::uint32_t handle);
void remove_channel(Session& session, std::uint32_t handle);
void remove_mw(Session& session, std::uint32_t handle);
void remove_region(Session& session, std::uint32_t handle);
void remove_dm(Session& session, std::uint32_t handle);
void remove_ah(Session& session, std::uint32_t handle);
void remove_xrcd(Session& session, std::uint32_t handle);
void remove_pd(Session& session, std::uint32_t handle);

void remove_srqs(Session& session);
void remove_mws(Session& session);
void remove_regions(Session& session);

}  // namespace uroce::control
