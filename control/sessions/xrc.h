#pragma once

// XRC domains (IBTA vol. 1, annex A14). A domain is shared by all sessions, also of different
// programs, that opened it with the same file, and so are its receive queue pairs: each exists as
// long as a session holds a handle of it. Control thread only.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "control/sessions/number_pool.h"
#include "dataplane/engine/engine.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/xrc_domain.h"
#include "shares/account.h"

namespace uroce::control {

class Session;
struct QpObject;
struct SrqObject;
struct XrcTarget;

// Identifies a domain: device and inode; the file's contents are never read.
struct XrcFile {
  std::uint32_t device = 0;  // index of our device
  std::uint64_t file_system = 0, inode = 0;
  auto operator<=>(const XrcFile&) const = default;
};

struct SharedXrcDomain {
  explicit SharedXrcDomain(std::uint32_t workers) : seen(workers) {}
  std::vector<XrcDomain> seen;  // one per worker; never resized, as queue pairs point into it
  std::map<std::uint32_t, XrcTarget*> targets;  // by queue pair number
  UniqueFd file;             // keeps the inode number from being reused; none: a private domain
  Charge charge;             // for the file, charged to the session that passed it
  bool queues_left = false;  // during leave_xrc_domains(): of the ending session
};

// A session's handle of a domain.
struct Xrcd {
  std::shared_ptr<SharedXrcDomain> domain;
  std::uint32_t users = 0;  // objects of this session
  Charge charge;
};

// A receive queue pair of a domain, with the sessions' handles of it.
struct XrcTarget {
  struct Handle {
    Session* session = nullptr;
    std::uint32_t handle = 0;
  };
  XrcTarget() = default;
  ~XrcTarget();  // removes it from the domain
  XrcTarget(const XrcTarget&) = delete;
  XrcTarget& operator=(const XrcTarget&) = delete;

  PooledNumber<NumberPool> qpn;
  std::shared_ptr<SharedXrcDomain> domain;
  std::shared_ptr<Qp> qp;
  std::vector<Handle> handles;  // workers' events are looked up by the first one
};

// The daemon's domains that have a file.
class XrcDomains {
 public:
  explicit XrcDomains(std::uint32_t workers) : workers_(workers) {}

  // nullptr: no domain has this file.
  [[nodiscard]] std::shared_ptr<SharedXrcDomain> find(const XrcFile& file) const;
  // A private domain, or one that others find by this file.
  [[nodiscard]] std::shared_ptr<SharedXrcDomain> make() const;
  std::shared_ptr<SharedXrcDomain> make(const XrcFile& name, UniqueFd file, Charge charge);

 private:
  std::uint32_t workers_;
  std::map<XrcFile, std::weak_ptr<SharedXrcDomain>> domains_;
};

// A handle of a receive queue pair for a session; it starts with the same attributes as the
// existing handles.
std::unique_ptr<QpObject> make_handle(Session& session, const std::shared_ptr<XrcTarget>& target,
                                      Xrcd& xrcd, std::uint64_t cookie, Charge charge);
// Adds the handle to the session. REQUIRES: neither has changed since make_handle(); then this
// allocates nothing.
std::uint32_t add_handle(Session& session, std::unique_ptr<QpObject> object);
// The queue pair is destroyed with its last handle.
void release_handle(Session& session, std::uint32_t handle, QpObject& object);
// Calls visit(session, object) for each handle of an XRC receive queue pair. REQUIRES:
// object.target
void for_each_handle(const QpObject& object, const std::function<void(Session&, QpObject&)>& visit);

// Moves a queue pair to the error state; false if it is in it already or in RESET. Called in a task
// of its worker.
[[nodiscard]] bool fail(Worker& worker, Qp& qp);

// Registers an XRC shared receive queue with all workers.
void enter_xrc_domain(Engine& engine, const SrqObject& srq);
// Unregisters it. First workers stop seeing it, so that no receive of it is taken any more; then
// the domain's receiving queue pairs forget the ones that they hold, some in each task.
void leave_xrc_domain(Engine& engine, const SrqObject& srq);
// Unregisters all that the session has, in one pass over each of its domains. Allocates nothing.
void leave_xrc_domains(Session& session);
// Completions for these queues of the domain can't be reported any more: its receive queue pairs
// whose last message was for one of them go to the error state and are returned. The others
// continue.
std::vector<XrcTarget*> fail_receivers(Engine& engine, SharedXrcDomain& domain,
                                       const std::set<std::uint32_t>& srqs);

}  // namespace uroce::control
