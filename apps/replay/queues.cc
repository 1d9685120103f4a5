#include "apps/replay/queues.h"

namespace uroce {

Queues::Queues(const QueuesConfig& config)
    : sends(config.send_entries, abi::send_stride(config.sge_max, config.inline_max)),
      receives(config.recv_entries, abi::recv_stride(config.sge_max)),
      send_completions(config.cq_entries),
      receive_completions(config.cq_entries),
      config_(config),
      send_cq_({.handle = 1,
                .control = &send_completions.control,
                .entries = send_completions.entries.data(),
                .entry_count = config.cq_entries}),
      receive_cq_({.handle = 2,
                   .control = &receive_completions.control,
                   .entries = receive_completions.entries.data(),
                   .entry_count = config.cq_entries}),
      receive_queue_({.handle = 3,
                      .control = &receives.control,
                      .entries = receives.entries.data(),
                      .entry_count = config.recv_entries,
                      .stride = receives.stride,
                      .sge_max = config.sge_max,
                      .users = ReceiveQueue::Users::kOneQp}) {}

void Queues::attach(QpConfig* config) {
  config->send_sge_max = config_.sge_max;
  config->inline_max = config_.inline_max;
  config->send_control = &sends.control;
  config->send_entries = sends.entries.data();
  config->send_entry_count = config_.send_entries;
  config->send_stride = sends.stride;
  config->receive_queue = &receive_queue_;
  config->send_cq = &send_cq_;
  config->recv_cq = &receive_cq_;
}

}  // namespace uroce
