#include "apps/replay/queues.h"

namespace uroce {

Queues::Queues(const QueuesConfig& config)
    : sends(config.send_entries, abi::send_stride(config.sge_max, config.inline_max)),
      receives(config.recv_entries, abi::recv_stride(config.sge_max)),
      send_completions(config.cq_entries),
      receive_completions(config.cq_entries),
      config_(config),
      send_cq_(1, &send_completions.control, send_completions.entries.data(), config.cq_entries, -1,
               0, false),
      receive_cq_(2, &receive_completions.control, receive_completions.entries.data(),
                  config.cq_entries, -1, 0, false),
      receive_queue_(3, &receives.control, receives.entries.data(), config.recv_entries,
                     receives.stride, config.sge_max, ReceiveQueue::Users::kOneQp) {}

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
