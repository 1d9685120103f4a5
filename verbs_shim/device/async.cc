// Asynchronous events of queues, ports and the device, which no completion reports.
//
// They arrive through a socket whose other end the daemon holds. When the daemon dies the events
// end, which is reported as an event too, once: IBV_EVENT_DEVICE_FATAL.

#include <cstring>

#include "verbs_shim/objects/handle.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {
namespace {

enum class Subject { kCq, kQp, kSrq, kPort, kDevice };

Subject subject_of(std::uint32_t event) {
  switch (event) {
    case IBV_EVENT_CQ_ERR:
      return Subject::kCq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return Subject::kQp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return Subject::kSrq;
    case IBV_EVENT_DEVICE_FATAL:
      return Subject::kDevice;
    default:
      return Subject::kPort;
  }
}

// Fills the event and counts it for the object; false if the object is gone.
bool translate(Context& context, const abi::AsyncEventRecord& record, ibv_async_event& event) {
  event = {};
  event.event_type = static_cast<ibv_event_type>(record.event);
  switch (subject_of(record.event)) {
    case Subject::kCq:
      return context.registry.with<Cq>(record.cookie, [&](Cq& cq) {
        ++cq.async_events_delivered;
        event.element.cq = &plain(cq);
      });
    case Subject::kQp:
      return context.registry.with<Qp>(record.cookie, [&](Qp& qp) {
        ++qp.async_events_delivered;
        event.element.qp = &plain(qp);
      });
    case Subject::kSrq:
      return context.registry.with<Srq>(record.cookie, [&](Srq& srq) {
        ++srq.async_events_delivered;
        event.element.srq = &srq.base;
      });
    case Subject::kPort:
      event.element.port_num = static_cast<int>(record.handle);
      return true;
    case Subject::kDevice:
      return true;
  }
  return false;
}

bool names_nothing(void* context, const void* bytes) {
  abi::AsyncEventRecord record{};
  std::memcpy(&record, bytes, sizeof(record));
  Registry& registry = static_cast<Context*>(context)->registry;
  switch (subject_of(record.event)) {
    case Subject::kCq:
      return !registry.with<Cq>(record.cookie, [](Cq& /*cq*/) {});
    case Subject::kQp:
      return !registry.with<Qp>(record.cookie, [](Qp& /*qp*/) {});
    case Subject::kSrq:
      return !registry.with<Srq>(record.cookie, [](Srq& /*srq*/) {});
    case Subject::kPort:
    case Subject::kDevice:
      break;
  }
  return false;
}

void acknowledge(pthread_mutex_t& mutex, pthread_cond_t& condition, std::uint32_t& completed) {
  pthread_mutex_lock(&mutex);
  ++completed;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
}

}  // namespace

void forget_async_events(ibv_context* base) {
  Context& context = *of(base);
  // Without an event queue the device is closed: ~Client() has woken the waiting threads.
  if (!context.client.abandoned() && context.async_events != nullptr) {
    context.async_events->forget({names_nothing, &context});
  }
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

int ibv_get_async_event(ibv_context* base, ibv_async_event* event) {
  Context& context = *of(base);
  if (context.client.abandoned()) {
    errno = ENODEV;  // the events belong to the parent
    return -1;
  }
  for (;;) {
    abi::AsyncEventRecord record{};
    const ssize_t length = context.async_events->next({names_nothing, &context}, &record);
    if (length == static_cast<ssize_t>(sizeof(record))) {
      if (translate(context, record, *event)) {
        return 0;
      }
    } else if (length == 0) {
      context.client.check();
      if (context.death_announced.exchange(true, std::memory_order_relaxed)) {
        errno = ENODEV;
        return -1;
      }
      *event = {};
      event->event_type = IBV_EVENT_DEVICE_FATAL;
      return 0;
    } else {
      return -1;
    }
  }
}

void ibv_ack_async_event(ibv_async_event* event) {
  switch (subject_of(event->event_type)) {
    case Subject::kCq: {
      ibv_cq* cq = event->element.cq;
      return acknowledge(cq->mutex, cq->cond, cq->async_events_completed);
    }
    case Subject::kQp: {
      ibv_qp* qp = event->element.qp;
      return acknowledge(qp->mutex, qp->cond, qp->events_completed);
    }
    case Subject::kSrq: {
      ibv_srq* srq = event->element.srq;
      return acknowledge(srq->mutex, srq->cond, srq->events_completed);
    }
    case Subject::kPort:
    case Subject::kDevice:
      return;
  }
}
}
