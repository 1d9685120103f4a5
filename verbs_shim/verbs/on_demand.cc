#include "verbs_shim/verbs/on_demand.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

#include "verbs_shim/memory/paging/paging.h"
#include "verbs_shim/objects/handle.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {
namespace {

using abi::Advice;

struct alignas(abi::AdviseMrRequest) AdviceRecord {
  std::byte bytes[sizeof(abi::AdviseMrRequest) + abi::kAdviseSgesMax * sizeof(abi::AdviseSge)];
};

// REQUIRES: the context's mutex.
int open_channels(Context& context) {
  if (const DoneOrRefusal allowed = PagingSession::allowed(); !allowed) {
    return refuse("ibv_reg_mr", allowed.error().code, allowed.error().message.c_str());
  }
  PlainRequest request{};
  PlainReply reply{};
  Descriptors received;
  const int error =
      context.client.call("ibv_reg_mr", abi::Command::kOpenPaging, request, reply, &received);
  if (error != 0) {
    return error;
  }
  if (received.count() != 2) {
    return refuse("ibv_reg_mr", EPROTO, "the daemon gave no channels for paging");
  }
  auto session = PagingSession::open(received.take(0), received.take(1));
  if (!session) {
    return refuse("ibv_reg_mr", session.error().code, session.error().message.c_str());
  }
  context.paging = std::move(*session);
  return 0;
}

int send_advice(Context& context, std::uint32_t pd, Advice advice, std::uint32_t flags,
                const ibv_sge* first, std::uint32_t count) {
  AdviceRecord record{};
  auto& request = *reinterpret_cast<abi::AdviseMrRequest*>(record.bytes);
  request.pd = pd;
  request.advice = advice;
  request.flags = flags;
  request.sge_count = count;
  for (std::uint32_t i = 0; i < count; ++i) {
    request.sges[i] = {.address = first[i].addr, .length = first[i].length, .lkey = first[i].lkey};
  }
  PlainReply reply{};
  return context.client.exchange({.call_name = "ibv_advise_mr",
                                  .command = abi::Command::kAdviseMr,
                                  .header = request.header,
                                  .length = sizeof(request) + count * sizeof(abi::AdviseSge)},
                                 {.header = reply.header, .size = sizeof(reply)});
}

}  // namespace

int open_paging(Context& context) {
  pthread_mutex_lock(&context.base.context.mutex);
  const int error = context.paging != nullptr ? 0 : open_channels(context);
  pthread_mutex_unlock(&context.base.context.mutex);
  return error;
}

bool is_implicit(const void* address, std::size_t length) {
  return address == nullptr && length == SIZE_MAX;
}

// Errors as in ibv_advise_mr(3).
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* sg_list,
              uint32_t num_sge) {
  if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
      advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
    return refuse("ibv_advise_mr", EOPNOTSUPP, "unsupported advice");
  }
  if ((flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0 || num_sge == 0) {
    return refuse("ibv_advise_mr", EINVAL, "an unknown flag, or no scatter entry");
  }
  int error = 0;
  for (std::uint32_t done = 0; error == 0 && done < num_sge;) {
    const std::uint32_t count = std::min(num_sge - done, abi::kAdviseSgesMax);
    error = send_advice(*of(pd->context), pd->handle, static_cast<Advice>(advice), flags,
                        sg_list + done, count);
    done += count;
  }
  if (error != 0) {
    errno = error;
  }
  return error;
}

}  // namespace uroce::shim
