#include "control/sessions/session.h"

#include <fcntl.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/capabilities.h"
#include "base/page.h"
#include "base/sockets/event_socket.h"
#include "control/sessions/card_limits.h"
#include "control/sessions/teardown.h"

namespace uroce::control {
namespace {

constexpr std::size_t kDoorbellsStride = page_ceil(sizeof(abi::Doorbells));

// What wakes each worker: the session's descriptors, and the program's copies.
struct Wakes {
  std::vector<EventFd> ours;
  std::vector<UniqueFd> theirs;
};

Result<Wakes> make_wakes(std::uint32_t workers) {
  Wakes wakes;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    auto event = EventFd::make();
    if (!event) {
      return event.error();
    }
    wakes.theirs.emplace_back(::fcntl(event->get(), F_DUPFD_CLOEXEC, 0));
    if (!wakes.theirs.back().valid()) {
      return system_error("the daemon can't make an eventfd");
    }
    wakes.ours.push_back(std::move(*event));
  }
  return Result<Wakes>(std::move(wakes));
}

}  // namespace

Session::Session(Card& card, std::uint64_t id, const Peer& peer)
    : card_(card),
      id_(id),
      peer_(peer),
      account_(card.shares().of(user_of(process_of(peer)))),
      rings_(account_),
      memory_(account_),
      addresses_(card.engine()),
      events_(card.event_socket_watch(), id) {
  card_.enter(*this);
}

// Users before the objects that they use: queue pairs, then their completion and receive queues,
// then memory. The cost per object must not depend on the number of others.
Session::~Session() {
  ending_ = true;
  qps.for_each([&](std::uint32_t handle, QpObject&) { remove_qp(*this, handle); });
  for (std::uint32_t worker = 0; worker < bells_.size(); ++worker) {
    card_.engine().call(worker, [&](Worker& w) { w.remove_session(bells_[worker]); });
  }
  remove_srqs(*this);
  cqs.for_each([&](std::uint32_t handle, CqObject&) { remove_cq(*this, handle); });
  channels.for_each([&](std::uint32_t handle, Channel&) { remove_channel(*this, handle); });
  remove_mws(*this);
  remove_regions(*this);
  xrcds.for_each([&](std::uint32_t handle, Xrcd&) { remove_xrcd(*this, handle); });
  device_memories.for_each([&](std::uint32_t handle, DeviceMemory&) { remove_dm(*this, handle); });
  address_handles.for_each([&](std::uint32_t handle, AddressHandle&) { remove_ah(*this, handle); });
  pds.for_each([&](std::uint32_t handle, ProtectionDomain&) { remove_pd(*this, handle); });
  card_.leave(*this);
}

Status Session::admit() {
  // The connection, and the descriptor that signals its program's end (base/program_process.h).
  auto charge = account_->charge({{Limit::kSessions}, {Limit::kDescriptors, 2}});
  if (!charge) {
    return charge.error();
  }
  charge_ = std::move(*charge);
  return ok();
}

Result<Session::Opened> Session::open(Device& device) {
  const std::uint32_t workers = card_.engine().workers();
  // A mapping for the doorbells; descriptors for events, for the doorbells until they are sealed,
  // and each worker's wake-ups.
  auto charge = account_->charge({{Limit::kMappings}, {Limit::kDescriptors, 2 + workers}});
  if (!charge) {
    return charge.error();
  }
  auto events = make_event_socket("the event socket", kAsyncEventsMax);
  if (!events) {
    return events.error();
  }
  const std::size_t all_doorbells = workers * kDoorbellsStride;
  auto doorbells = SealedMemory::create("uroce-doorbells", all_doorbells + sizeof(abi::CommandPage),
                                        SealedMemory::Writers::kBothUntilSealed);
  if (!doorbells) {
    return doorbells.error();
  }
  auto unsealed = doorbells->copy_descriptor();
  if (!unsealed) {
    return unsealed.error();
  }
  auto status = card_.status().copy_descriptor();
  if (!status) {
    return status.error();
  }
  auto ticket = make_ticket(device);
  if (!ticket) {
    return ticket.error();
  }
  auto wakes = make_wakes(workers);
  if (!wakes) {
    return wakes.error();
  }
  std::deque<SessionDoorbells> bells(workers);
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    bells[worker].bells =
        reinterpret_cast<abi::Doorbells*>(doorbells->data() + worker * kDoorbellsStride);
    bells[worker].wake_descriptor = wakes->ours[worker].get();
  }
  Opened opened;
  opened.descriptors.reserve(4 + workers);
  // From here on nothing throws: an open device has all that others expect of it.
  wake_descriptors_ = std::move(wakes->ours);
  open_charge_ = std::move(*charge);
  events_.set_socket(std::move(events->write_end));
  doorbells_ = std::move(*doorbells);
  unsealed_ = std::move(*unsealed);
  command_page_.emplace(*reinterpret_cast<abi::CommandPage*>(doorbells_.data() + all_doorbells));
  bells_ = std::move(bells);  // which doesn't move its elements
  device_ = &device;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    card_.engine().call(worker, [&](Worker& w) { w.add_session(bells_[worker]); });
  }
  opened.reply.doorbells_stride = kDoorbellsStride;
  opened.reply.status_stride = kStatusStride;
  opened.reply.workers = workers;
  opened.reply.ports = 1;
  // A program has one such exception, and may have given it to others (Open MPI: to everybody).
  const bool may_trace = (effective_capabilities() & capability_bit(CAP_SYS_PTRACE)) != 0;
  opened.reply.traced_by = may_trace ? 0 : static_cast<std::uint32_t>(::getpid());
  opened.reply.device = device.record();
  opened.descriptors.push_back(std::move(events->read_end));
  opened.descriptors.push_back(doorbells_.take_descriptor());
  opened.descriptors.push_back(std::move(*status));
  opened.descriptors.push_back(std::move(*ticket));
  std::move(wakes->theirs.begin(), wakes->theirs.end(), std::back_inserter(opened.descriptors));
  return Result<Opened>(std::move(opened));
}

// Control doesn't access memory into which holes can be punched: it would block in the kernel until
// that is done.
CommandPage* Session::command_page() {
  if (unsealed_.valid()) {
    const int seals = ::fcntl(unsealed_.get(), F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_FUTURE_WRITE) == 0) {
      return nullptr;
    }
    unsealed_.reset();
  }
  return command_page_ ? &*command_page_ : nullptr;
}

// The secret is random, so that only a descriptor that the program passed on identifies it.
Result<UniqueFd> Session::make_ticket(const Device& device) {
  ticket_.session = id_;
  ticket_.device = device.record().index;
  ticket_.magic = abi::kMagic;
  if (::getrandom(ticket_.secret, sizeof(ticket_.secret), 0) != sizeof(ticket_.secret)) {
    return system_error("the daemon can't get random bytes");
  }
  auto page = SealedMemory::create("uroce-ticket", sizeof(abi::ImportToken),
                                   SealedMemory::Writers::kDaemonOnly);
  if (!page) {
    return page.error();
  }
  std::memcpy(page->data(), &ticket_, sizeof(ticket_));
  return Result<UniqueFd>(page->take_descriptor());
}

Status Session::import_from(const abi::ImportToken& ticket) {
  const Session* const other = card_.find_session(ticket.session);
  if (other == nullptr || other->device() == nullptr) {
    return Error{ENODEV, "the program whose device is to be imported has closed it"};
  }
  if (std::memcmp(&other->ticket(), &ticket, sizeof(ticket)) != 0) {
    return Error{EACCES, "the descriptor to import from isn't one that this uroced gave out"};
  }
  exporter_ = ticket.session;
  return ok();
}

Result<const Session*> Session::exporter() const {
  if (!exporter_) {
    return Error{EINVAL, "this device was opened, not imported"};
  }
  const Session* const found = card_.find_session(*exporter_);
  if (found == nullptr) {
    return Error{ENODEV, "the program whose device was imported has closed it"};
  }
  return found;
}

void Session::choose(std::uint32_t qpn, std::uint32_t key) {
  chosen_qpn_ = qpn;
  chosen_key_ = key;
}

void Session::announce(std::uint32_t event, std::uint32_t handle, std::uint64_t cookie) {
  events_.put({event, handle, cookie}, qps.count() + cqs.count() + srqs.count());
}

}  // namespace uroce::control
