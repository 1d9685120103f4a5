// Memory windows: allocated, and bound by a work request of a queue pair.

#include <cerrno>

#include "apps/console/commands.h"
#include "apps/console/names.h"

namespace uroce::console {
namespace {

constexpr std::uint64_t kBindWaitMs = 2'000;

Result<ibv_mw_type> parse_window_type(const std::string& text) {
  if (text == "1" || text == "2") {
    return text == "1" ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
  }
  return Error{EINVAL, "a window is of type=1 or type=2"};
}

// Type 1 is bound by a call of its own, type 2 by a work request, with a key of the program's
// choice.
int post_bind(const Queue& queue, ibv_mw* window, const ibv_mw_bind_info& info) {
  if (window->type == IBV_MW_TYPE_1) {
    ibv_mw_bind bind{.wr_id = 0, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
    return ibv_bind_mw(queue.qp, window, &bind);
  }
  ibv_send_wr request{};
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = IBV_SEND_SIGNALED;
  request.bind_mw = {.mw = window, .rkey = ibv_inc_rkey(window->rkey), .bind_info = info};
  ibv_send_wr* bad = nullptr;
  const int code = ibv_post_send(queue.qp, &request, &bad);
  if (code == 0) {
    window->rkey = request.bind_mw.rkey;
  }
  return code;
}

Status bind_window(const Queue& queue, ibv_mw* window, const ibv_mw_bind_info& info) {
  if (const int code = post_bind(queue, window, info); code != 0) {
    return verb_error("binding a window", code);
  }
  ibv_wc completion{};
  if (!wait_for(kBindWaitMs, [&] { return ibv_poll_cq(queue.send_cq, 1, &completion) != 0; })) {
    return Error{ETIMEDOUT, "the bind doesn't complete: the queue pair must be in RTS"};
  }
  return completion.status == IBV_WC_SUCCESS
             ? ok()
             : Status(Error{EINVAL, "the bind completes with " + name_of(completion.status)});
}

}  // namespace

Result<std::string> make_window(Objects& objects, Words& words) {
  const std::string name = words.next_name();
  const ibv_mw_type type = words.parsed("type", "2", parse_window_type);
  const auto of = words.text("of");
  const std::string binder = words.text("qp", "");
  unsigned access = words.parsed("access", "read+write+atomic", parse_access);
  access |= words.flag("zero_based") ? unsigned{IBV_ACCESS_ZERO_BASED} : 0U;
  const bool other_pd = words.flag("other_pd");
  const auto place = parse_place(of.value_or(""));
  if (Status status = words.check(); !status || !place) {
    return !status ? status.error() : place.error();
  }
  if (name.empty() || objects.windows.contains(name) ||
      objects.windows.size() >= Objects::kObjectsMax) {
    return Error{EINVAL, "a window needs a new name; there may be " +
                             std::to_string(Objects::kObjectsMax) + " of them"};
  }
  auto window = std::make_unique<Window>();
  window->mw = ibv_alloc_mw(objects.pd(other_pd), type);
  if (window->mw == nullptr) {
    return verb_error("ibv_alloc_mw", errno);
  }
  if (of) {
    const auto region = objects.region(place->region);
    const auto sge = gather(objects, *place);
    const auto queue = objects.queue(binder);
    if (!region || !sge || !queue) {
      return !region ? region.error() : !sge ? sge.error() : queue.error();
    }
    const ibv_mw_bind_info info{
        .mr = (*region)->mr, .addr = sge->addr, .length = sge->length, .mw_access_flags = access};
    if (Status status = bind_window(**queue, window->mw, info); !status) {
      return status.error();
    }
  }
  const std::string answer = "window=" + name + " rkey=" + std::to_string(window->mw->rkey) + "\n";
  objects.windows[name] = std::move(window);
  return answer;
}

Result<std::string> free_window(Objects& objects, Words& words) {
  const std::string name = words.next_name();
  if (Status status = words.check(); !status) {
    return status.error();
  }
  if (objects.windows.erase(name) == 0) {
    return Error{EINVAL, "there is no window `" + name + "`"};
  }
  return std::string("freed=yes\n");
}

}  // namespace uroce::console
