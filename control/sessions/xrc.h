#pragma once

// XRC domains (IBTA vol. 1, annex A14). A domain is shared by all sessions that opened it by the
// same file, also of different programs, and so are its receiving queue pairs: each lives as long
// as a session holds it. Control thread only.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/unique_fd.h"
#include "control/sessions/handle_table.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/xrc_domain.h"

namespace uroce::control {

class Session;
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
};

// A session's hold of a domain.
struct Xrcd {
  std::shared_ptr<SharedXrcDomain> domain;
  std::uint32_t users = 0;  // objects of this session
};

// A receiving queue pair of a domain, with the handles by which sessions hold it.
struct XrcTarget {
  struct Handle {
    Session* session = nullptr;
    std::uint32_t handle = 0;
  };
  std::shared_ptr<SharedXrcDomain> domain;
  std::shared_ptr<Qp> qp;
  std::vector<Handle> handles;  // the first is the one that workers' events are looked up by
};

}  // namespace uroce::control
