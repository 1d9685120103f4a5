// Work requests, completions and events.

#include <time.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <vector>

#include "apps/console/commands.h"
#include "apps/console/names.h"

namespace uroce::console {
namespace {

constexpr std::uint64_t kWaitMsMax = 60'000;
constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 1'000'000};

// All places given as name=, as a scatter/gather list.
std::vector<ibv_sge> gather_list(const Objects& objects, Words& words, const char* name) {
  std::vector<ibv_sge> list;
  while (const auto text = words.text(name)) {
    const auto place = parse_place(*text);
    const auto sge = place ? gather(objects, *place) : Result<ibv_sge>(place.error());
    if (!sge) {
      words.fail(sge.error());
      break;
    }
    list.push_back(*sge);
  }
  return list;
}

// The bare word that is a work request's number.
std::uint64_t request_number(Words& words) {
  const auto number = parse_number(words.next_name());
  if (!number) {
    words.fail({EINVAL, "a work request needs a number"});
    return 0;
  }
  return *number;
}

std::string describe(const ibv_wc& completion) {
  std::string text = "wr=" + std::to_string(completion.wr_id) +
                     " status=" + name_of(completion.status) +
                     " qp=" + std::to_string(completion.qp_num);
  if (completion.status != IBV_WC_SUCCESS) {
    return text + "\n";
  }
  text +=
      " opcode=" + name_of(completion.opcode) + " length=" + std::to_string(completion.byte_len);
  if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) {
    text += " imm=" + std::to_string(be32toh(completion.imm_data));
  }
  if ((completion.wc_flags & IBV_WC_WITH_INV) != 0) {
    text += " invalidated=" + std::to_string(completion.invalidated_rkey);
  }
  if ((completion.wc_flags & IBV_WC_GRH) != 0) {
    text += " grh=yes";
  }
  if (completion.src_qp != 0) {
    text += " source_qp=" + std::to_string(completion.src_qp);
  }
  return text + "\n";
}

}  // namespace

bool wait_for(std::uint64_t milliseconds, const std::function<bool()>& look) {
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds(std::min(milliseconds, kWaitMsMax));
  while (!look()) {
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    ::nanosleep(&kLook, nullptr);
  }
  return true;
}

Result<std::string> post_receive(Objects& objects, Words& words) {
  const auto queue = objects.queue(words.next_name());
  ibv_recv_wr request{};
  request.wr_id = request_number(words);
  std::vector<ibv_sge> list = gather_list(objects, words, "to");
  if (Status status = words.check(); !status || !queue) {
    return !status ? status.error() : queue.error();
  }
  request.sg_list = list.data();
  request.num_sge = static_cast<int>(list.size());
  ibv_recv_wr* bad = nullptr;
  const Queue& target = **queue;
  const int code = target.srq != nullptr ? ibv_post_srq_recv(target.srq, &request, &bad)
                                         : ibv_post_recv(target.qp, &request, &bad);
  return code == 0 ? Result<std::string>("posted=yes\n") : verb_error("ibv_post_recv", code);
}

Result<std::string> post_send(Objects& objects, Words& words) {
  const auto queue = objects.queue(words.next_name());
  ibv_send_wr request{};
  request.wr_id = request_number(words);
  request.opcode = words.parsed("opcode", "", parse_opcode);
  std::vector<ibv_sge> list = gather_list(objects, words, "from");
  const std::uint64_t address = words.number("address", 0);
  const auto rkey = static_cast<std::uint32_t>(words.number("rkey", 0));
  const auto immediate = static_cast<std::uint32_t>(words.number("imm", 0));
  const auto invalidate = static_cast<std::uint32_t>(words.number("invalidate", 0));
  const std::uint64_t compare = words.number("compare", 0);
  const std::uint64_t swap = words.number("swap", 0);
  const std::uint64_t add = words.number("add", 0);
  request.send_flags = (words.flag("unsignaled") ? 0U : unsigned{IBV_SEND_SIGNALED}) |
                       (words.flag("solicited") ? unsigned{IBV_SEND_SOLICITED} : 0U) |
                       (words.flag("fence") ? unsigned{IBV_SEND_FENCE} : 0U) |
                       (words.flag("inline") ? unsigned{IBV_SEND_INLINE} : 0U);
  if (Status status = words.check(); !status || !queue) {
    return !status ? status.error() : queue.error();
  }
  request.sg_list = list.data();
  request.num_sge = static_cast<int>(list.size());
  const Queue& source = **queue;
  if (request.opcode == IBV_WR_SEND_WITH_INV) {
    request.invalidate_rkey = invalidate;
  } else {
    request.imm_data = htobe32(immediate);
  }
  if (source.ah != nullptr) {
    request.wr.ud = {.ah = source.ah, .remote_qpn = source.peer_qpn, .remote_qkey = source.qkey};
  } else if (request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
             request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    const bool swaps = request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    request.wr.atomic = {
        .remote_addr = address, .compare_add = swaps ? compare : add, .swap = swap, .rkey = rkey};
  } else {
    request.wr.rdma = {.remote_addr = address, .rkey = rkey};
  }
  ibv_send_wr* bad = nullptr;
  const int code = ibv_post_send(source.qp, &request, &bad);
  return code == 0 ? Result<std::string>("posted=yes\n") : verb_error("ibv_post_send", code);
}

Result<std::string> poll_queue(Objects& objects, Words& words) {
  const auto queue = objects.queue(words.next_name());
  const std::string side = words.next_name();
  const std::uint64_t wait = words.number("wait", 0);
  if (side != "send" && side != "recv") {
    words.fail({EINVAL, "say which completions: poll QP send, or poll QP recv"});
  }
  if (Status status = words.check(); !status || !queue) {
    return !status ? status.error() : queue.error();
  }
  ibv_cq* const cq = side == "send" ? (*queue)->send_cq : (*queue)->recv_cq;
  ibv_wc completion{};
  int found = 0;
  wait_for(wait, [&] {
    found = ibv_poll_cq(cq, 1, &completion);
    return found != 0;
  });
  if (found < 0) {
    return verb_error("ibv_poll_cq", EIO);
  }
  return found == 0 ? "completion=none\n" : describe(completion);
}

Result<std::string> next_event(Objects& objects, Words& words) {
  const std::uint64_t wait = words.number("wait", 0);
  if (Status status = words.check(); !status) {
    return status.error();
  }
  ibv_async_event event{};
  if (!wait_for(wait, [&] { return ibv_get_async_event(objects.context(), &event) == 0; })) {
    return std::string("event=none\n");
  }
  ibv_ack_async_event(&event);
  return "event=" + name_of(event.event_type) + "\n";
}

}  // namespace uroce::console
