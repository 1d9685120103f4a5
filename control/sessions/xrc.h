#pragma once

// XRC domains (IBTA vol. 1, annex A14). A domain is shared by all sessions that opened it by the
// same file, also of different programs, and so are its receiving queue pairs: each lives as long
// as a session holds a handle of it. Control thread only.

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

// By what programs name a domain; the file's contents are nobody's business.
struct XrcFile {
  std::uint32_t device = 0;  // of ours
  std::uint64_t file_system = 0, inode = 0;
  auto operator<=>(const XrcFile&) const = default;
};

struct SharedXrcDomain {
  explicit SharedXrcDomain(std::uint32_t workers) : seen(workers) {}
  std::vector<XrcDomain> seen;  // by each worker; never resized, as queue pairs point into it
  std::map<std::uint32_t, XrcTarget*> targets;  // by number
  UniqueFd file;  // keeps the inode's number from being reused; none: only one session knows it
  Charge charge;  // for the file, charged to the session that passed it
};

// A session's hold of a domain.
struct Xrcd {
  std::shared_ptr<SharedXrcDomain> domain;
  std::uint32_t users = 0;  // objects of this session
  Charge charge;
};

// A receiving queue pair of a domain, with the handles by which sessions hold it.
struct XrcTarget {
  struct Handle {
    Session* session = nullptr;
    std::uint32_t handle = 0;
  };
  XrcTarget() = default;
  ~XrcTarget();  // the domain knows it no more
  XrcTarget(const XrcTarget&) = delete;
  XrcTarget& operator=(const XrcTarget&) = delete;

  PooledNumber<NumberPool> qpn;
  std::shared_ptr<SharedXrcDomain> domain;
  std::shared_ptr<Qp> qp;
  std::vector<Handle> handles;  // the first is the one that workers' events are looked up by
};

// The domains of the whole daemon that have a file.
class XrcDomains {
 public:
  explicit XrcDomains(std::uint32_t workers) : workers_(workers) {}

  // nullptr: the file has none.
  [[nodiscard]] std::shared_ptr<SharedXrcDomain> find(const XrcFile& file) const;
  // A domain that only its maker knows, or that others find by this file.
  [[nodiscard]] std::shared_ptr<SharedXrcDomain> make() const;
  std::shared_ptr<SharedXrcDomain> make(const XrcFile& name, UniqueFd file, Charge charge);

 private:
  std::uint32_t workers_;
  std::map<XrcFile, std::weak_ptr<SharedXrcDomain>> domains_;
};

// A receiving queue pair as a session is about to hold it; it knows what the holders before know.
std::unique_ptr<QpObject> make_handle(Session& session, const std::shared_ptr<XrcTarget>& target,
                                      Xrcd& xrcd, std::uint64_t cookie, Charge charge);
// The session's new handle of it. REQUIRES: make_handle() was the last thing that changed either;
// then this needs no memory.
std::uint32_t hold(Session& session, std::unique_ptr<QpObject> object);
// The queue pair is destroyed with its last handle.
void let_go(Session& session, std::uint32_t handle, QpObject& object);
// Calls visit(session, object) for each handle of a receiving queue pair. REQUIRES: object.target
void for_each_holder(const QpObject& object, const std::function<void(Session&, QpObject&)>& visit);

// Puts a queue pair into the error state, unless it is there or in RESET: then false. For a task of
// its worker.
[[nodiscard]] bool fail(Worker& worker, Qp& qp);

// Makes a shared receive queue of type XRC known to all workers, or unknown.
void enter_xrc_domain(Engine& engine, const SrqObject& srq);
void leave_xrc_domain(Engine& engine, const SrqObject& srq);
// What is received by these queues of the domain can't be told any more: its receiving queue pairs
// whose last message was for one of them go to the error state, and are returned. The others go on.
std::vector<XrcTarget*> fail_receivers(Engine& engine, SharedXrcDomain& domain,
                                       const std::set<std::uint32_t>& srqs);

}  // namespace uroce::control
