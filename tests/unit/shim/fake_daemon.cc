#include "tests/unit/shim/fake_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "abi/cq_records.h"
#include "abi/device_records.h"
#include "abi/import_records.h"
#include "abi/memory_records.h"
#include "abi/ring_records.h"
#include "base/check.h"
#include "base/sockets/descriptor_message.h"
#include "base/sockets/socket_path.h"

namespace uroce::test {
namespace {

using abi::Command;

constexpr std::uint32_t kDoorbellSlot = 70;
constexpr std::uint32_t kRings = 5;  // number of their memory

void make_channel(UniqueFd& read_end, UniqueFd& write_end) {
  int ends[2];
  UROCE_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  read_end.reset(ends[0]);
  write_end.reset(ends[1]);
}

void make_pipe(UniqueFd& read_end, UniqueFd& write_end) {
  int ends[2];
  UROCE_CHECK(pipe2(ends, O_CLOEXEC) == 0);
  read_end.reset(ends[0]);
  write_end.reset(ends[1]);
}

std::uint32_t next_instance() {
  static std::atomic<std::uint32_t> last{100};
  return ++last;
}

}  // namespace

SharedFile::SharedFile(std::size_t length) : size(length) {
  descriptor.reset(memfd_create("fake", MFD_CLOEXEC));
  UROCE_CHECK(ftruncate(descriptor.get(), static_cast<off_t>(length)) == 0);
  memory = static_cast<std::byte*>(
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0));
  UROCE_CHECK(memory != MAP_FAILED);
}

FakeDaemon::FakeDaemon() : instance_(next_instance()) {
  const std::string path = folder_ / "socket";
  listener_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  UROCE_CHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  UROCE_CHECK(listen(listener_.get(), 8) == 0);
  setenv(kSocketVariable, path.c_str(), 1);
  make_pipe(stop_read_, stop_write_);
  make_channel(async_read_, async_write_);
  make_channel(channel_read_, channel_write_);
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  doorbells_ = SharedFile(sizeof(abi::Doorbells) + sizeof(abi::CommandPage));
  status_ = SharedFile(sizeof(abi::WorkerStatus));
  ticket_ = SharedFile(sizeof(abi::ImportToken));
  cq_ = SharedFile(kQueueLength);
  qp_ = SharedFile(kQueueLength);
  thread_ = std::thread([this] { serve(); });
}

FakeDaemon::~FakeDaemon() {
  die();
  for (const SharedFile* file : {&doorbells_, &status_, &ticket_, &cq_, &qp_}) {
    munmap(file->memory, file->size);
  }
}

void FakeDaemon::die() {
  stop_write_.reset();
  if (thread_.joinable()) {
    thread_.join();
  }
  async_write_.reset();
  channel_write_.reset();
  async_read_.reset();
  channel_read_.reset();
  separate_ends_.clear();
}

// One thread serves all connections in turn until die() closes the pipe.
void FakeDaemon::serve() {
  std::vector<UniqueFd> connections;
  for (;;) {
    std::vector<pollfd> waiting{{stop_read_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const UniqueFd& connection : connections) {
      waiting.push_back({connection.get(), POLLIN, 0});
    }
    poll(waiting.data(), waiting.size(), -1);
    if (waiting[0].revents != 0) {
      listener_.reset();
      return;
    }
    for (std::size_t i = connections.size(); i-- > 0;) {
      if (waiting[i + 2].revents != 0) {
        char peeked = 0;
        if (recv(connections[i].get(), &peeked, 1, MSG_PEEK) <= 0) {
          connections.erase(connections.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
          exchange_once(connections[i].get());
        }
      }
    }
    if (waiting[1].revents != 0) {
      connections.emplace_back(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    }
  }
}

void FakeDaemon::exchange_once(int connection) {
  std::vector<std::byte> record(kRecordMax);
  if (recv(connection, record.data(), record.size(), 0) <= 0) {
    return;
  }
  abi::RequestHeader request;
  std::memcpy(&request, record.data(), sizeof(request));
  auto held = static_cast<std::uint32_t>(request.command);
  if (held_.compare_exchange_strong(held, 0)) {
    arrived_.release();
    released_.acquire();
  }
  Answer reply = answer_to(request.command, record.data());
  last_command_ = request.command;
  last_version_ = request.version;
  std::memcpy(&last_handle_, record.data() + sizeof(request), sizeof(last_handle_));
  abi::ReplyHeader header;
  std::memcpy(&header, reply.bytes.data(), sizeof(header));
  header.sequence = request.sequence + (out_of_order_ ? 1 : 0);
  header.length = static_cast<std::uint32_t>(reply.bytes.size());
  const auto refusal = refusals_.find(request.command);
  if (refusal != refusals_.end()) {
    header.error = refusal->second.error;
    std::strncpy(header.message, refusal->second.sentence, sizeof(header.message) - 1);
    reply.passed.clear();
  }
  std::memcpy(reply.bytes.data(), &header, sizeof(header));
  (void)send_message(connection, reply.bytes, reply.passed);
}

template <typename Reply>
FakeDaemon::Answer FakeDaemon::answer(const Reply& reply, std::vector<int> passed) {
  Answer out;
  out.bytes.resize(sizeof(reply));
  std::memcpy(out.bytes.data(), &reply, sizeof(reply));
  out.passed = std::move(passed);
  return out;
}

FakeDaemon::Answer FakeDaemon::answer_to(Command command, const std::byte* record) {
  switch (command) {
    case Command::kListDevices: {
      abi::ListDevicesReply reply{};
      reply.count = 1;
      reply.devices[0] = device();
      return answer(reply);
    }
    case Command::kOpenDevice:
      return open_device();
    case Command::kQueryDevice:
      return answer(abi::QueryDeviceReply{});
    case Command::kQueryPort: {
      abi::QueryPortReply reply{};
      reply.gid_count = 2;
      reply.pkey_count = 1;
      reply.active_width = reply.active_speed = 1;
      return answer(reply);
    }
    case Command::kCreateChannel:
      return create_channel();
    case Command::kCmOpenChannel:
      return open_cm_channel();
    case Command::kCreateCq:
      return create_cq(record);
    case Command::kResizeCq:
      return resize_cq(record);
    case Command::kCreateSrq:
      return create_srq();
    case Command::kResizeSrq:
      return resize_srq(record);
    case Command::kCreateQp:
      return create_qp(record);
    case Command::kMapRings: {
      abi::MapRingsReply reply{};
      reply.length = kQueueLength;
      reply.shared = rings_of_one_ ? 0 : 1;
      ++rings_mapped_;
      return answer(reply, {qp_.descriptor.get()});
    }
    case Command::kRegMr: {
      abi::RegMrRequest request;
      std::memcpy(&request, record, sizeof(request));
      registered_in_ = request.pd;
      abi::RegMrReply reply{};
      reply.lkey = reply.rkey = 0x501;
      return answer(reply);
    }
    case Command::kAllocPd:
      return answer(abi::HandleReply{});
    case Command::kAllocDm:
      return answer(abi::HandleReply{}, {qp_.descriptor.get()});
    case Command::kImportDm: {
      abi::ImportDmReply reply{};
      reply.length = kQueueLength;
      return answer(reply, {qp_.descriptor.get()});
    }
    case Command::kCmCommand: {
      const std::lock_guard lock(cm_mutex_);
      const bool asks_for_event = reinterpret_cast<const abi::CmCommandRequest*>(record)->number ==
                                  RDMA_USER_CM_CMD_GET_EVENT;
      const bool has_event = cm_reply_.output_length >= sizeof(rdma_ucm_event_resp);
      return answer(asks_for_event && !has_event ? abi::CmCommandReply{} : cm_reply_);
    }
    default: {
      struct {
        abi::ReplyHeader header;
      } reply{};
      return answer(reply);
    }
  }
}

abi::DeviceRecord FakeDaemon::device() const {
  abi::DeviceRecord record{};
  std::strcpy(record.name, "uroce0");
  record.instance = instance_;
  record.node_guid = instance_;
  return record;
}

FakeDaemon::Answer FakeDaemon::open_device() {
  abi::OpenDeviceReply reply{};
  reply.workers = 1;
  reply.ports = 1;
  reply.doorbells_stride = sizeof(abi::Doorbells);
  reply.status_stride = sizeof(abi::WorkerStatus);
  reply.traced_by = static_cast<std::uint32_t>(getpid());
  reply.device = device();
  return answer(reply, {async_read_.get(), doorbells_.descriptor.get(), status_.descriptor.get(),
                        ticket_.descriptor.get(), wake_.get()});
}

FakeDaemon::Answer FakeDaemon::create_channel() {
  return answer(abi::HandleReply{}, {channel_read_.get()});
}

FakeDaemon::Answer FakeDaemon::open_cm_channel() {
  if (!separate_channels_) {
    return create_channel();
  }
  UniqueFd write_end;
  make_channel(channel_read_, write_end);
  separate_ends_.push_back(std::move(write_end));
  return create_channel();
}

FakeDaemon::Answer FakeDaemon::create_cq(const std::byte* record) {
  abi::CreateCqRequest request;
  std::memcpy(&request, record, sizeof(request));
  last_cookie_ = request.cookie;
  abi::CreateCqReply reply{};
  reply.handle = kCqHandle;
  reply.entries = kEntries;
  reply.entries_offset = kEntriesOffset;
  reply.memory_length = kQueueLength;
  return answer(reply, {cq_.descriptor.get()});
}

FakeDaemon::Answer FakeDaemon::resize_cq(const std::byte* record) {
  abi::ResizeCqRequest request;
  std::memcpy(&request, record, sizeof(request));
  const bool commits = request.commit != 0;
  mixed_resizes_ += resizing_ == commits ? 0U : 1U;
  resizing_ = !commits;
  abi::ResizeCqReply reply{};
  reply.entries = kEntries;
  reply.memory_length = kQueueLength;
  return commits ? answer(reply) : answer(reply, {cq_.descriptor.get()});
}

FakeDaemon::Answer FakeDaemon::create_srq() {
  abi::CreateSrqReply reply{};
  reply.max_wr = kEntries;
  reply.max_sge = kSgeMax;
  reply.ring = {.control_offset = 0,
                .entries_offset = kEntriesOffset,
                .entries = kEntries,
                .stride = abi::recv_stride(kSgeMax)};
  reply.memory_length = kQueueLength;
  return answer(reply, {qp_.descriptor.get()});
}

FakeDaemon::Answer FakeDaemon::resize_srq(const std::byte* record) {
  abi::ResizeSrqRequest request;
  std::memcpy(&request, record, sizeof(request));
  abi::ResizeSrqReply reply{};
  reply.max_wr = kEntries;
  reply.memory_length = kQueueLength;
  return request.commit != 0 ? answer(reply) : answer(reply, {qp_.descriptor.get()});
}

FakeDaemon::Answer FakeDaemon::create_qp(const std::byte* record) {
  abi::CreateQpRequest request;
  std::memcpy(&request, record, sizeof(request));
  last_cookie_ = request.cookie;
  abi::CreateQpReply reply{};
  reply.qpn = kQpn;
  reply.doorbell_slot = kDoorbellSlot;
  reply.max_send_wr = reply.max_recv_wr = kEntries;
  reply.max_send_sge = reply.max_recv_sge = kSgeMax;
  reply.max_inline = kInlineMax;
  reply.send = {.control_offset = 0,
                .entries_offset = kEntriesOffset,
                .entries = kEntries,
                .stride = abi::send_stride(kSgeMax, kInlineMax)};
  reply.recv = {.control_offset = kRecvOffset,
                .entries_offset = kRecvOffset + kEntriesOffset,
                .entries = kEntries,
                .stride = abi::recv_stride(kSgeMax)};
  reply.memory = kRings;
  return answer(reply);
}

void FakeDaemon::complete(const abi::Cqe& cqe) {
  auto& producer = cq().ring.producer.value;
  const std::uint32_t index = producer.load(std::memory_order_relaxed);
  abi::write_completion(
      cqe, index,
      reinterpret_cast<abi::Cqe*>(cq_.memory + kEntriesOffset + (index % kEntries) * sizeof(cqe)));
  producer.store(index + 1, std::memory_order_release);
}

const abi::SendWr& FakeDaemon::send_entry(std::uint32_t index) {
  return *reinterpret_cast<const abi::SendWr*>(
      qp_.memory + kEntriesOffset + (index % kEntries) * abi::send_stride(kSgeMax, kInlineMax));
}

const abi::RecvWr& FakeDaemon::recv_entry(std::uint32_t index) {
  return *reinterpret_cast<const abi::RecvWr*>(qp_.memory + kRecvOffset + kEntriesOffset +
                                               (index % kEntries) * abi::recv_stride(kSgeMax));
}

std::uint64_t FakeDaemon::wakes() {
  std::uint64_t count = 0;
  return read(wake_.get(), &count, sizeof(count)) == sizeof(count) ? count : 0;
}

void FakeDaemon::announce(const abi::AsyncEventRecord& record) {
  UROCE_CHECK(write(async_write_.get(), &record, sizeof(record)) == sizeof(record));
}

void FakeDaemon::announce_to_librdmacm(const abi::CmCommandReply& reply) {
  {
    const std::lock_guard lock(cm_mutex_);
    cm_reply_ = reply;
  }
  if (separate_channels_) {
    return;
  }
  const char byte = 1;
  UROCE_CHECK(write(channel_write_.get(), &byte, 1) == 1);
}

void FakeDaemon::announce(const abi::CompletionEvent& event) {
  UROCE_CHECK(write(channel_write_.get(), &event, sizeof(event)) == sizeof(event));
}

}  // namespace uroce::test
