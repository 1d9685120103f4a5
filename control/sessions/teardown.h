#pragma once

// What the destroying commands and the end of a session do. `handle` exists and its object has no
// users. Where one throws for want of memory the object is there still, under its handle, so that
// it can be destroyed again: workers let go of it before the table does. Control thread only.

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

}  // namespace uroce::control
