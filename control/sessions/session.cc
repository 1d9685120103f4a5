#include "control/sessions/session.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "control/commands/command_table.h"
#include "control/paging/paging_service.h"
#include "control/sessions/withdraw_events.h"

namespace uroce::control {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kDoorbellsStride = (sizeof(abi::Doorbells) + kPage - 1) / kPage * kPage;
constexpr int kEventPipeFlags = O_CLOEXEC;

abi::ReplyHeader reply_header(std::uint32_t sequence) {
  abi::ReplyHeader header;
  header.version = abi::kVersion;
  header.sequence = sequence;
  return header;
}

}  // namespace

Session::Session(Card& card, std::uint64_t id, const Peer& peer)
    : account("a session", card.queue_bytes_session_max, card.queue_mappings_user_max,
              &card.account_of(peer.uid)),
      memory(peer.pid, peer.uid),
      card_(card),
      id_(id),
      peer_(peer) {
  card_.sessions[id_] = this;
}

// Users before what they use: queue pairs, then what they complete into and take from, then memory.
// What is done for each of many objects must not depend on how many others there are.
Session::~Session() {
  ending_ = true;
  cm_user.reset();  // peers learn of it before its queue pairs are silent
  qps.for_each([&](std::uint32_t handle, QpObject&) { remove_qp(*this, handle); });
  for (std::uint32_t worker = 0; worker < bells_.size(); ++worker) {
    card_.engine().call(worker, [&](Worker& w) { w.remove_session(bells_[worker]); });
  }
  srqs.for_each([&](std::uint32_t handle, SrqObject&) { remove_srq(*this, handle); });
  cqs.for_each([&](std::uint32_t handle, CqObject&) { remove_cq(*this, handle); });
  channels.for_each([&](std::uint32_t handle, Channel&) { remove_channel(*this, handle); });
  windows.for_each([&](std::uint32_t handle, MemoryWindow&) { remove_mw(*this, handle); });
  regions.for_each([&](std::uint32_t handle, MemoryRegion&) { remove_region(*this, handle); });
  xrcds.for_each([&](std::uint32_t handle, Xrcd&) { remove_xrcd(*this, handle); });
  device_memories.for_each([&](std::uint32_t handle, DeviceMemory&) { remove_dm(*this, handle); });
  address_handles.for_each([&](std::uint32_t handle, AddressHandle&) { remove_ah(*this, handle); });
  pds.for_each([&](std::uint32_t handle, ProtectionDomain&) { remove_pd(*this, handle); });
  if (mirror != nullptr) {
    card_.paging->close(mirror);
  }
  card_.sessions.erase(id_);
}

void Session::receive(Record record) {
  abi::RequestHeader header;
  if (record.bytes.size() < sizeof(header)) {
    refuse(EBADMSG, "the record is shorter than its header");
    return;
  }
  std::memcpy(&header, record.bytes.data(), sizeof(header));
  if (header.magic != abi::kMagic) {
    refuse(EBADMSG, "the record isn't one of uroce's");
    return;
  }
  if (header.version != abi::kVersion) {
    reply_error(header.sequence,
                {EPROTONOSUPPORT, "this uroced speaks version " + std::to_string(abi::kVersion) +
                                      ", the program's libibverbs of uroce version " +
                                      std::to_string(header.version) + "; install the same uroce"});
    finished_ = true;
    return;
  }
  if (header.length != record.bytes.size() ||
      header.descriptor_count != record.descriptors.size()) {
    reply_error(header.sequence,
                {EBADMSG, "the record's length or number of descriptors is wrong"});
    return;
  }
  run(header, Request{std::move(record.bytes), std::move(record.descriptors)});
}

void Session::refuse(int error, const std::string& message) {
  reply_error(0, {error, message});
  finished_ = true;
}

void Session::resume() {
  if (waiting_) {
    Waiting again = std::move(*waiting_);
    waiting_.reset();
    run(again.header, std::move(again.request));
  }
}

void Session::run(const abi::RequestHeader& header, Request request) {
  Reply answer;
  const Result<Outcome> outcome = dispatch(header, request, &answer);
  if (!outcome) {
    registration.reset();
    log_refusal(header.command, outcome.error());
    reply_error(header.sequence, outcome.error());
    return;
  }
  switch (*outcome) {
    case Outcome::kReply:
      reply(header, std::move(answer));
      break;
    case Outcome::kWait:
      waiting_ = Waiting{header, std::move(request)};
      break;
    case Outcome::kMore:
      break;
  }
}

void Session::log_refusal(abi::Command command, const Error& error) {
  const CommandRule* rule = command_rule(command);
  if (device_ == nullptr || rule == nullptr) {
    return;  // not a program with a device, or not a command
  }
  card_.errors.add(id_, peer_,
                   std::string(rule->name) + " refused with " + strerrorname_np(error.code) + ": " +
                       error.message);
}

Result<Outcome> Session::dispatch(const abi::RequestHeader& header, Request& request,
                                  Reply* reply) {
  const CommandRule* rule = command_rule(header.command);
  if (rule == nullptr) {
    return Error{EOPNOTSUPP, "this uroced has no command " +
                                 std::to_string(static_cast<std::uint32_t>(header.command))};
  }
  const std::size_t length = request.bytes.size();
  if (length < rule->length || (length > rule->length && !rule->tail)) {
    return Error{EBADMSG, std::string(rule->name) + ": the record has the wrong length"};
  }
  if (request.descriptors.size() > rule->descriptors_max) {
    return Error{EBADMSG, std::string(rule->name) + ": the record has too many descriptors"};
  }
  if (rule->needs_device && device_ == nullptr) {
    return Error{EBADF, std::string(rule->name) + ": no device is open on this connection"};
  }
  return rule->handler(*this, request, reply);
}

// The JSON of kStatus is longer than a record; every other reply is one piece.
void Session::reply(const abi::RequestHeader& request, Reply reply) {
  constexpr std::size_t kPieceMax = kRecordMax - sizeof(abi::ReplyHeader);
  std::span<const std::byte> rest(reply.bytes);
  rest = rest.subspan(sizeof(abi::ReplyHeader));
  do {
    const std::span<const std::byte> piece = rest.first(std::min(rest.size(), kPieceMax));
    rest = rest.subspan(piece.size());
    Record record;
    abi::ReplyHeader header = reply_header(request.sequence);
    header.length = static_cast<std::uint32_t>(sizeof(header) + piece.size());
    header.flags = rest.empty() ? 0 : static_cast<std::uint32_t>(abi::kReplyMore);
    if (rest.empty()) {
      std::swap(record.descriptors, reply.descriptors);
    }
    header.descriptor_count = static_cast<std::uint32_t>(record.descriptors.size());
    record.bytes.resize(header.length);
    std::memcpy(record.bytes.data(), &header, sizeof(header));
    std::copy(piece.begin(), piece.end(), record.bytes.begin() + sizeof(header));
    outbox_.push_back(std::move(record));
  } while (!rest.empty());
}

void Session::reply_error(std::uint32_t sequence, const Error& error) {
  abi::ReplyHeader header = reply_header(sequence);
  header.error = error.code;
  header.length = sizeof(header);
  const std::size_t length = std::min<std::size_t>(error.message.size(), abi::kMessageMax - 1);
  std::memcpy(header.message, error.message.data(), length);
  Record record;
  record.bytes.resize(sizeof(header));
  std::memcpy(record.bytes.data(), &header, sizeof(header));
  outbox_.push_back(std::move(record));
}

Result<Outcome> Session::open(Device& device, Reply* reply) {
  const std::uint32_t workers = card_.engine().workers();
  int pipe_ends[2];
  if (::pipe2(pipe_ends, kEventPipeFlags) != 0) {
    return system_error("the daemon can't make the event pipe");
  }
  UniqueFd read_end(pipe_ends[0]);
  UniqueFd write_end(pipe_ends[1]);
  if (::fcntl(write_end.get(), F_SETFL, O_NONBLOCK) != 0) {
    return system_error("the daemon can't make the event pipe");
  }
  auto doorbells = SealedMemory::create("uroce-doorbells", workers * kDoorbellsStride);
  if (!doorbells) {
    return doorbells.error();
  }
  auto status = card_.status().copy_descriptor();
  if (!status) {
    return status.error();
  }
  auto ticket = make_ticket(device);
  if (!ticket) {
    return ticket.error();
  }
  std::vector<UniqueFd> theirs;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    UniqueFd& ours = wake_descriptors_.emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    theirs.emplace_back(::fcntl(ours.get(), F_DUPFD_CLOEXEC, 0));
    if (!ours.valid() || !theirs.back().valid()) {
      wake_descriptors_.clear();
      return system_error("the daemon can't make an eventfd");
    }
  }
  device_ = &device;
  event_pipe_ = std::move(write_end);
  doorbells_ = std::move(*doorbells);
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    SessionBells& bells = bells_.emplace_back();
    bells.bells = reinterpret_cast<abi::Doorbells*>(doorbells_.data() + worker * kDoorbellsStride);
    bells.wake_descriptor = wake_descriptors_[worker].get();
    card_.engine().call(worker, [&](Worker& w) { w.add_session(bells); });
  }
  abi::OpenDeviceReply body{};
  body.doorbells_stride = kDoorbellsStride;
  body.status_stride = kStatusStride;
  body.workers = workers;
  body.ports = 1;
  body.daemon_pid = static_cast<std::uint32_t>(::getpid());
  reply->set(body);
  reply->descriptors.push_back(std::move(read_end));
  reply->descriptors.push_back(doorbells_.take_descriptor());
  reply->descriptors.push_back(std::move(*status));
  reply->descriptors.push_back(std::move(*ticket));
  std::move(theirs.begin(), theirs.end(), std::back_inserter(reply->descriptors));
  return Outcome::kReply;
}

// The secret is random, so that only a descriptor that the program passed on leads here.
Result<UniqueFd> Session::make_ticket(const Device& device) {
  ticket_.session = id_;
  ticket_.device = device.record().index;
  ticket_.magic = abi::kMagic;
  if (::getrandom(ticket_.secret, sizeof(ticket_.secret), 0) != sizeof(ticket_.secret)) {
    return system_error("the daemon can't get random bytes");
  }
  auto page =
      SealedMemory::create("uroce-ticket", sizeof(abi::Ticket), SealedMemory::Writers::kDaemonOnly);
  if (!page) {
    return page.error();
  }
  std::memcpy(page->data(), &ticket_, sizeof(ticket_));
  return Result<UniqueFd>(page->take_descriptor());
}

void Session::announce(std::uint32_t event, std::uint32_t handle, std::uint64_t cookie) {
  const abi::AsyncEventRecord record{event, handle, cookie};
  if (::write(event_pipe_.get(), &record, sizeof(record)) != sizeof(record)) {
    ++events_lost;  // the program doesn't read its events; it harms only itself
  }
}

void Session::withdraw_events(std::uint64_t cookie) {
  if (ending_) {
    return;
  }
  events_lost += withdraw<abi::AsyncEventRecord>(
      event_pipe_.get(),
      [cookie](const abi::AsyncEventRecord& record) { return record.cookie == cookie; });
}

std::optional<std::uint32_t> Session::take_slot() {
  if (slots_used_ < kSessionQpsMax && free_slots_.size() < kSlotQuarantine) {
    return slots_used_++;
  }
  if (free_slots_.empty()) {
    return std::nullopt;
  }
  const std::uint32_t slot = free_slots_.front();
  free_slots_.pop_front();
  return slot;
}

void Session::free_slot(std::uint32_t slot) { free_slots_.push_back(slot); }

}  // namespace uroce::control
