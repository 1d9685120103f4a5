// Commands about protection domains and memory regions.

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "control/commands/command_table.h"
#include "control/commands/conversation.h"
#include "control/commands/destroy.h"
#include "control/commands/piece_list.h"
#include "control/sessions/card_limits.h"
#include "control/sessions/teardown.h"
#include "mmu/mirror/mirror.h"
#include "mmu/proc_mem/proc_mem_thread.h"

namespace uroce::control {

Result<Outcome> alloc_pd(Session& session, Request& /*request*/, Reply* reply) {
  auto charge = session.account()->charge(Limit::kPds);
  if (!charge) {
    return charge.error();
  }
  auto pd = std::make_unique<ProtectionDomain>();
  pd->id = session.card().new_pd();
  pd->charge = std::move(*charge);
  reply->set_handle(session.pds.add(std::move(pd)));
  return Outcome::kReply;
}

namespace {

// Counts the helpers (mmu/proc_mem/proc_mem_thread.h) that are still accessing a session's memory.
// Made before that memory is taken away, since making it may fail.
class HelperCount {
 public:
  explicit HelperCount(Conversation& conversation) {
    PagingService* const paging = conversation.services().paging;
    Session& session = conversation.session();
    if (paging == nullptr) {
      return;
    }
    programs_ = {session.memory().program(),
                 session.mirror() == nullptr ? nullptr : session.mirror()->program()};
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      if (programs_[i] != nullptr) {
        // Release: pairs with the acquire of the handler that checks again.
        waiters_[i] =
            ProcMemThread::make_waiter([count = count_, control = paging->control_event()] {
              count->fetch_sub(1, std::memory_order_release);
              control->ring();
            });
      }
    }
  }

  // Of copies submitted so far. Allocates nothing.
  std::shared_ptr<std::atomic<std::uint32_t>> begin() {
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      if (programs_[i] == nullptr) {
        continue;
      }
      count_->fetch_add(1, std::memory_order_relaxed);
      if (programs_[i]->notify_when_idle(std::move(waiters_[i]))) {
        count_->fetch_sub(1, std::memory_order_relaxed);
      }
    }
    return count_;
  }

 private:
  std::shared_ptr<std::atomic<std::uint32_t>> count_ =
      std::make_shared<std::atomic<std::uint32_t>>(0);
  std::array<std::shared_ptr<ProcMemThread>, 2> programs_;  // of pinned memory, of the mirror
  std::array<ProcMemThread::Waiters, 2> waiters_;
};

// Whether all helpers have finished; the handler is run again until they have, since until then the
// program can't reuse the memory. How long that takes depends on the program only.
Outcome when_helpers_are_back(const Request& request) {
  return request.helpers->load(std::memory_order_acquire) == 0 ? Outcome::kReply : Outcome::kWait;
}

}  // namespace

Result<Outcome> dealloc_pd(Session& session, Request& request, Reply* /*reply*/) {
  return destroy(session, session.pds, request, remove_pd);
}

Result<Outcome> share_arena(Session& session, Request& request, Reply* reply) {
  if (request.descriptors.size() != 1) {
    return Error{EBADMSG, "share arena: the record has no descriptor"};
  }
  auto handle = session.memory().add_arena(std::move(request.descriptors.front()),
                                           request.as<abi::ShareArenaRequest>().page_size);
  if (!handle) {
    return handle.error();
  }
  reply->set_handle(*handle);
  return Outcome::kReply;
}

// A registration for which a helper opens files. The helper writes it before `done`.
struct Registration {
  std::vector<abi::MemoryPiece> pieces;
  Charge charge;  // for the files opened
  ProgramMemory::Opened opened;
  bool without_memory = false;    // opening failed for lack of memory
  std::atomic<bool> done{false};  // released by the helper, acquired by control
  abi::RegMrReply replaced{};     // used by control only: the reply once a region has been replaced
};

namespace {

// The region was replaced; the program may reuse its old memory once this is answered.
Outcome answer_replaced(const Request& request, Reply* reply) {
  reply->set(request.registration->replaced);
  return when_helpers_are_back(request);
}

// ibv_rereg_mr: changes all of a region's properties at once, under its old keys. If this is
// refused, the old region stays unchanged.
Result<Outcome> replace_region(Conversation& conversation, Request& request, std::uint32_t handle,
                               std::unique_ptr<Region> region, ProtectionDomain& pd,
                               LockedCharge locked, Reply* reply) {
  Session& session = conversation.session();
  const auto found = session.regions.get(handle);
  if (!found) {
    return found.error();
  }
  MemoryRegion& old = **found;
  if (old.dm != nullptr) {
    return Error{EINVAL, "a region of device memory can't be registered anew"};
  }
  const std::uint32_t remote_pieces = region->remote_pieces();
  const std::uint64_t length = region->length();
  const bool on_demand = region->mirror() != nullptr;
  HelperCount helpers(conversation);
  const auto replaced = session.card().keys().replace(old.key, std::move(region));
  if (!replaced) {
    return replaced.error();
  }
  --old.pd->users;
  ++pd.users;
  old.pd = &pd;
  old.length = length;
  session.on_demand_regions += on_demand ? 1 : 0;
  session.on_demand_regions -= old.on_demand ? 1 : 0;
  old.on_demand = on_demand;
  old.locked = std::move(locked);
  request.registration->replaced = {{}, handle, old.key, old.key, remote_pieces};
  request.helpers = helpers.begin();
  return answer_replaced(request, reply);
}

ProgramMemory::Request wanted_by(const abi::RegMrRequest& head, PdId pd) {
  return {.pd = pd,
          .access = head.access,
          .address = head.address,
          .length = head.length,
          .iova = head.iova};
}

// The new region shares all its pages now.
Result<std::unique_ptr<Region>> make_pinned_region(Session& session, PdId pd,
                                                   const abi::RegMrRequest& head,
                                                   Registration& registration,
                                                   std::span<const UniqueFd> files) {
  std::vector<int> descriptors;
  for (const UniqueFd& file : files) {
    descriptors.push_back(file.get());
  }
  auto region = session.memory().make_region(wanted_by(head, pd), registration.pieces, descriptors,
                                             std::move(registration.opened));
  registration.charge = {};  // they are closed
  return region;
}

// What a list of pieces must be before anything is opened for it.
Status check_list(const abi::RegMrRequest& head, const std::vector<abi::MemoryPiece>& pieces) {
  if ((head.access & kAccessOnDemand) != 0) {
    return ok();  // it has none
  }
  if (head.length > kRegionBytesMax || head.address + head.length < head.address) {
    return Error{EINVAL, "a memory region has at most 2^46 bytes and doesn't wrap"};
  }
  return ProgramMemory::check(wanted_by(head, 0), pieces);
}

// Whether the registration can continue: files that aren't passed but opened through /proc/PID are
// opened by a helper, since that waits for the program's locks.
Result<Outcome> open_pieces(Conversation& conversation, const abi::RegMrRequest& head,
                            const std::shared_ptr<Registration>& registration) {
  const Session& session = conversation.session();
  const bool on_demand = (head.access & kAccessOnDemand) != 0;
  if (on_demand || !conversation.session().memory().must_open(registration->pieces)) {
    registration->done.store(true, std::memory_order_relaxed);
    return Outcome::kReply;
  }
  if (const std::size_t files = ProgramMemory::files_to_open(registration->pieces); files != 0) {
    auto charge = session.account()->charge(Limit::kDescriptors, files);
    if (!charge) {
      return charge.error();
    }
    registration->charge = std::move(*charge);
  }
  const Peer peer = session.peer();
  const bool writing = ProgramMemory::is_writing(head.access);
  const Status asked = conversation.services().helpers->run(
      session.account()->user(), [registration, peer, writing] {
        try {
          registration->opened =
              ProgramMemory::open(process_of(peer), registration->pieces, writing);
        } catch (const std::bad_alloc&) {
          registration->without_memory = true;
        }
        registration->done.store(true, std::memory_order_release);
      });
  return asked ? Result<Outcome>(Outcome::kWait) : asked.error();
}

}  // namespace

Status check_rights(std::uint32_t access) {
  constexpr std::uint32_t kRemoteChanges = kAccessRemoteWrite | kAccessRemoteAtomic;
  if ((access & kRemoteChanges) != 0 && (access & kAccessLocalWrite) == 0) {
    return Error{EINVAL, "a region that peers may change needs IBV_ACCESS_LOCAL_WRITE too"};
  }
  return ok();
}

Result<Outcome> reg_mr(Conversation& conversation, Request& request, Reply* reply) {
  if (request.helpers != nullptr) {
    return answer_replaced(request, reply);
  }
  Session& session = conversation.session();
  abi::RegMrRequest head;  // as<> requires a type without a flexible array
  std::memcpy(&head, request.bytes.data(), sizeof(head));
  const auto pd = session.pds.get(head.pd);
  if (!pd) {
    return pd.error();
  }
  if (request.registration == nullptr) {
    auto pieces = take_pieces(head, request);
    if (!pieces) {
      return pieces.error();
    }
    if (Status rights = check_rights(head.access); !rights) {
      return rights.error();
    }
    if (Status sound = check_list(head, *pieces); !sound) {
      return sound.error();
    }
    request.registration = std::make_shared<Registration>();
    request.registration->pieces = std::move(*pieces);
    auto outcome = open_pieces(conversation, head, request.registration);
    if (!outcome || *outcome == Outcome::kWait) {
      return outcome;
    }
  }
  if (!request.registration->done.load(std::memory_order_acquire)) {
    const Status well = conversation.services().helpers->check(session.account()->user());
    return well ? Result<Outcome>(Outcome::kWait) : well.error();
  }
  if (request.registration->without_memory) {
    return Error{ENOMEM, "the daemon has no memory left to look at the program's"};
  }
  const bool on_demand = (head.access & kAccessOnDemand) != 0;
  const MemoryRegion* const old =
      head.replaces == 0 ? nullptr : session.regions.find(head.replaces - 1);
  auto locked = on_demand ? Result<LockedCharge>(LockedCharge())
                          : session.card().locked_memory().charge(
                                process_of(session.peer()), head.address, head.length,
                                old == nullptr ? nullptr : &old->locked);
  if (!locked) {
    return locked.error();
  }
  auto region = on_demand ? make_on_demand_region(session, (*pd)->id, head)
                          : make_pinned_region(session, (*pd)->id, head, *request.registration,
                                               request.descriptors);
  if (!region) {
    return region.error();
  }
  return head.replaces == 0 ? answer_with_region(session, std::move(*region), **pd, nullptr, reply,
                                                 std::move(*locked))
                            : replace_region(conversation, request, head.replaces - 1,
                                             std::move(*region), **pd, std::move(*locked), reply);
}

Result<Outcome> answer_with_region(Session& session, std::unique_ptr<Region> region,
                                   ProtectionDomain& pd, DeviceMemory* dm, Reply* reply,
                                   LockedCharge locked) {
  const std::uint32_t remote_pieces = region->remote_pieces();
  const std::uint64_t length = region->length();
  const bool on_demand = region->mirror() != nullptr;
  auto charge = session.account()->charge(Limit::kMrs);
  if (!charge) {
    return charge.error();
  }
  auto made = std::make_unique<MemoryRegion>(
      MemoryRegion{0, &pd, length, dm, on_demand, std::move(*charge), std::move(locked)});
  session.regions.make_room();  // once peers can use the key, nothing may fail
  const auto key = session.card().keys().add(std::move(region), session.take_chosen_key());
  if (!key) {
    return key.error();
  }
  ++pd.users;
  if (dm != nullptr) {
    ++dm->users;
  }
  session.on_demand_regions += on_demand ? 1 : 0;
  made->key = *key;
  const std::uint32_t handle = session.regions.add(std::move(made));
  reply->set(abi::RegMrReply{{}, handle, *key, *key, remote_pieces});
  return Outcome::kReply;
}

Result<Outcome> dereg_mr(Conversation& conversation, Request& request, Reply* /*reply*/) {
  if (request.helpers == nullptr) {
    Session& session = conversation.session();
    const std::uint32_t handle = request.as<abi::HandleRequest>().handle;
    const auto region = session.regions.get(handle);
    if (!region) {
      return region.error();
    }
    HelperCount helpers(conversation);
    if (!session.card().keys().close((*region)->key)) {
      return Error{EBUSY, "memory windows are bound to memory region " + std::to_string(handle)};
    }
    remove_region(session, handle);
    request.helpers = helpers.begin();
  }
  return when_helpers_are_back(request);
}

}  // namespace uroce::control
