// On-demand paging: opening its channels, registering, advice, and the report of `uroce odp`.

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "abi/paging_records.h"
#include "control/commands/command_table.h"
#include "control/commands/conversation.h"
#include "control/paging/paging_service.h"
#include "control/reports/paging_status.h"
#include "control/sessions/card_limits.h"
#include "mmu/proc_mem/proc_mem.h"

namespace uroce::control {

// Advice (ibv_advise_mr) in progress. Shared with the fault thread.
struct AdviceProgress {
  Charge charge;                       // for its ranges, until all are done
  std::atomic<std::uint32_t> left{0};  // ranges
  std::atomic<bool> failed{false};
  bool shared_only = false;  // the daemon reaches some of the memory only where it is shared
};

// The program's memory, opened by a helper, since that waits for the program's locks. Written
// before `done`.
struct MemoryOpening {
  UniqueFd memory;                // not valid: memory that can't be mapped isn't accessible
  std::string why_not;            // the reason for that
  std::atomic<bool> done{false};  // released by the helper, acquired by control
};

namespace {

Status open_memory(Conversation& conversation, const std::shared_ptr<MemoryOpening>& opening) {
  const Session& session = conversation.session();
  const Peer peer = session.peer();
  const User& user = session.account()->user();
  return conversation.services().helpers->run(user, [opening, peer] {
    try {
      if (auto memory = open_proc_mem(process_of(peer)); memory) {
        opening->memory = std::move(*memory);
      } else {
        opening->why_not = memory.error().message;
      }
    } catch (const std::bad_alloc&) {
      // Treated as inaccessible.
    }
    opening->done.store(true, std::memory_order_release);
  });
}

}  // namespace

Result<Outcome> open_paging(Conversation& conversation, Request& request, Reply* reply) {
  PagingService* const paging = conversation.services().paging;
  Session& session = conversation.session();
  if (paging == nullptr) {
    return Error{EOPNOTSUPP, "this uroced has no on-demand paging"};
  }
  // Without one, a program that asks for channels again couldn't have used the first ones: it had
  // no room for the descriptors, or no thread for its end of them.
  if (session.on_demand_regions != 0) {
    return Error{EBUSY, "this session's paging channels are already open"};
  }
  const auto& helpers = conversation.services().helpers;
  Status well = ok();
  if (request.opening == nullptr) {
    request.opening = std::make_shared<MemoryOpening>();
    well = open_memory(conversation, request.opening);
  } else if (!request.opening->done.load(std::memory_order_acquire)) {
    well = helpers->check(session.account()->user());
  }
  if (!well) {
    return well.error();
  }
  if (!request.opening->done.load(std::memory_order_acquire)) {
    return Outcome::kWait;
  }
  auto mirror =
      paging->make_mirror(std::move(request.opening->memory), session.id(), session.account());
  if (!mirror) {
    return mirror.error();
  }
  if (!request.opening->why_not.empty()) {
    // Logged here, since later failures can't name the reason: registering succeeds, and memory
    // that can be shared is accessible.
    conversation.services().errors.add(
        session.id(), session.peer(), *session.account(),
        "on demand only shared memory can be reached: " + request.opening->why_not);
  }
  reply->descriptors.reserve(2);
  auto channels = paging->open(*mirror, session.peer());
  if (!channels) {
    return channels.error();
  }
  if (session.mirror() != nullptr) {
    paging->close(session.mirror());
  }
  session.set_mirror(std::move(*mirror));
  reply->descriptors.push_back(std::move(channels->share));
  reply->descriptors.push_back(std::move(channels->invalidate));
  return Outcome::kReply;
}

Result<std::unique_ptr<Region>> make_on_demand_region(Session& session, PdId pd,
                                                      const abi::RegMrRequest& wanted) {
  if (session.mirror() == nullptr) {
    return Error{EINVAL, "the program must open paging before it registers memory on demand"};
  }
  const bool all = wanted.address == 0 && wanted.length == abi::kImplicitLength;
  if (all ? wanted.iova != 0 : wanted.length > kRegionBytesMax) {
    return Error{EINVAL,
                 "an on-demand region has at most 2^46 bytes, or is all memory (address "
                 "and iova 0, length SIZE_MAX)"};
  }
  if (wanted.length == 0 || (!all && (wanted.address + wanted.length < wanted.address ||
                                      wanted.iova + wanted.length < wanted.iova))) {
    return Error{EINVAL, "the range is empty or wraps around the end of the address space"};
  }
  Region::Config config;
  config.pd = pd;
  config.access = wanted.access;
  config.iova = wanted.iova;
  config.length = wanted.length;
  config.mirror = session.mirror();
  config.program_address = wanted.address;
  return std::make_unique<Region>(std::move(config));
}

namespace {

Status check_sge(const Session& session, const ProtectionDomain& pd, const abi::AdviseSge& sge,
                 abi::Advice advice, const Region** region) {
  const std::uint32_t rights =
      advice == abi::Advice::kPrefetchWrite ? kAccessLocalWrite : kAccessNone;
  // Only control removes regions, so none is removed meanwhile.
  switch (session.card().keys().check(sge.lkey, pd.id, sge.address, sge.length, rights, region)) {
    case Access::kGranted:
      break;
    case Access::kWrongPd:
      return Error{EPERM, "the region belongs to another protection domain"};
    case Access::kNoRight:
      return Error{EPERM, "PREFETCH_WRITE needs a region with IBV_ACCESS_LOCAL_WRITE"};
    case Access::kOutOfRange:
      return Error{EFAULT, "the range lies outside its region"};
    default:
      return Error{EFAULT, "no region has this lkey"};
  }
  if ((*region)->mirror() == nullptr) {
    return Error{EINVAL, "the region isn't paged on demand"};
  }
  return ok();
}

// Checks everything before anything is done.
Status check_sges(const Session& session, const ProtectionDomain& pd, abi::Advice advice,
                  std::span<const abi::AdviseSge> sges) {
  const Region* region = nullptr;
  for (const abi::AdviseSge& sge : sges) {
    if (Status status = check_sge(session, pd, sge, advice, &region); !status) {
      return status;
    }
    // Of the region's session, which may be another one that uses the same protection domain.
    const std::uint32_t under_way = region->mirror()->prefetches().load();
    if (under_way + sges.size() > Pager::kPrefetchesMax) {
      return Error{ENOMEM, "a session may have " + std::to_string(Pager::kPrefetchesMax) +
                               " ranges prefetched at a time, and has " +
                               std::to_string(under_way) +
                               "; wait for some (IBV_ADVISE_MR_FLAG_FLUSH)"};
    }
  }
  return ok();
}

void follow(Session& session, PagingService& paging, const ProtectionDomain& pd, abi::Advice advice,
            std::span<const abi::AdviseSge> sges, const std::shared_ptr<AdviceProgress>& progress) {
  progress->left.store(static_cast<std::uint32_t>(sges.size()), std::memory_order_relaxed);
  for (const abi::AdviseSge& sge : sges) {
    const Region* region = nullptr;
    if (!check_sge(session, pd, sge, advice, &region) || sge.length == 0) {
      progress->left.fetch_sub(1, std::memory_order_relaxed);
      continue;
    }
    progress->shared_only = progress->shared_only || region->mirror()->remote() < 0;
    paging.prefetch({.mirror = region->mirror(),
                     .address = region->program_address(sge.address),
                     .length = sge.length,
                     .write = advice == abi::Advice::kPrefetchWrite,
                     .faulting = advice != abi::Advice::kPrefetchNoFault,
                     .done = [progress, &paging](Access outcome) {
                       if (outcome != Access::kGranted) {
                         progress->failed.store(true, std::memory_order_relaxed);
                       }
                       // Release: pairs with the acquire of the handler that checks again.
                       if (progress->left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
                         paging.notify_control();
                       }
                     }});
  }
}

}  // namespace

// With kAdviseFlush it is run again whenever some advice has completed, until its own has.
Result<Outcome> advise_mr(Conversation& conversation, Request& request, Reply* /*reply*/) {
  abi::AdviseMrRequest head;  // as<> requires a type without a flexible array
  std::memcpy(&head, request.bytes.data(), sizeof(head));
  if (head.sge_count > abi::kAdviseSgesMax ||
      request.bytes.size() != sizeof(head) + head.sge_count * sizeof(abi::AdviseSge)) {
    return Error{EBADMSG, "advise MR: the number of ranges and the record's length disagree"};
  }
  if (request.advice == nullptr) {
    Session& session = conversation.session();
    PagingService* const paging = conversation.services().paging;
    std::vector<abi::AdviseSge> sges(head.sge_count);
    if (!sges.empty()) {
      std::memcpy(sges.data(), request.bytes.data() + sizeof(head),
                  sges.size() * sizeof(abi::AdviseSge));
    }
    const ProtectionDomain* pd = session.pds.find(head.pd);
    if (pd == nullptr || head.advice > abi::Advice::kPrefetchNoFault ||
        (head.flags & ~abi::kAdviseFlush) != 0) {
      return Error{EINVAL, "advise MR: unknown protection domain, advice or flag"};
    }
    if (paging == nullptr) {
      return Error{EOPNOTSUPP, "this uroced has no on-demand paging"};
    }
    if (Status status = check_sges(session, *pd, head.advice, sges); !status) {
      return status.error();
    }
    auto charge = session.account()->charge(Limit::kPrefetches, sges.size());
    if (!charge) {
      return charge.error();
    }
    auto progress = std::make_shared<AdviceProgress>();
    progress->charge = std::move(*charge);
    follow(session, *paging, *pd, head.advice, sges, progress);
    if ((head.flags & abi::kAdviseFlush) == 0) {
      return Outcome::kReply;
    }
    request.advice = std::move(progress);
  }
  if (request.advice->left.load(std::memory_order_acquire) != 0) {
    return Outcome::kWait;
  }
  const bool failed = request.advice->failed.load(std::memory_order_relaxed);
  const bool shared_only = request.advice->shared_only;
  request.advice.reset();
  if (failed && head.advice != abi::Advice::kPrefetchNoFault) {
    return Error{EFAULT,
                 std::string("part of the range isn't mapped, or not with the rights that are "
                             "needed") +
                     (shared_only ? ", or can't be shared, and the daemon may not reach it "
                                    "otherwise (`uroce errors`)"
                                  : "")};
  }
  return Outcome::kReply;
}

Result<Outcome> report_paging(Conversation& conversation, Request& /*request*/, Reply* reply) {
  const Services& services = conversation.services();
  if (services.paging == nullptr) {
    return Error{EOPNOTSUPP, "this uroced has no on-demand paging"};
  }
  reply->set_text(paging_text(services.card, *services.paging, conversation.session().peer()));
  return Outcome::kReply;
}

}  // namespace uroce::control
