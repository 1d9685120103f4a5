#include "dataplane/engine/engine.h"

#include <rte_launch.h>
#include <rte_lcore.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/journal.h"
#include "base/start_thread.h"
#include "base/time/liveness.h"
#include "base/time/monotonic_clock.h"
#include "dataplane/engine/threads/runner.h"
#include "dataplane/port/ethdev/eal.h"

namespace uroce {
namespace {

int run_on_lcore(void* runner) {
  static_cast<Runner*>(runner)->run();
  return 0;
}

// Not a bug of ours, for which checks are, but as fatal.
[[noreturn]] void end_process(std::uint32_t worker, pid_t thread) {
  std::fprintf(
      stderr,
      "%suroce: worker %u (thread %d) is stuck: it %s. Nothing that it serves can be changed "
      "safely any more, so the daemon ends\n",
      line_prefix(kCriticalLine), worker, thread, describe_activity(thread).c_str());
  std::abort();
}

}  // namespace

class Engine::State {
 public:
  Notices notices;
  std::vector<std::unique_ptr<Runner>> runners;
  std::vector<std::thread> threads;
  std::vector<unsigned> lcores;
  bool running = false;

  Status start_on_lcores() {
    unsigned lcore = 0;
    std::vector<unsigned> free;
    RTE_LCORE_FOREACH_WORKER(lcore) { free.push_back(lcore); }
    if (free.size() < runners.size()) {
      return Error{EINVAL, "the EAL has " + std::to_string(free.size()) + " worker lcores but " +
                               std::to_string(runners.size()) +
                               " workers are wanted; give more with -- --lcores"};
    }
    for (std::size_t i = 0; i < runners.size(); ++i) {
      if (rte_eal_remote_launch(run_on_lcore, runners[i].get(), free[i]) != 0) {
        stop();
        return Error{EBUSY, "lcore " + std::to_string(free[i]) + " is busy"};
      }
      lcores.push_back(free[i]);
    }
    return ok();
  }

  Mailbox::CallStatus call(std::uint32_t worker, const std::function<void(Worker&)>& task,
                           Duration limit) {
    Runner& runner = *runners[worker];
    if (!running) {
      runner.run_here(task);
      return Mailbox::CallStatus::kDone;
    }
    return runner.run_while_asleep(task) ? Mailbox::CallStatus::kDone
                                         : runner.mailbox().call(task, limit);
  }

  Status start_on_threads() {
    for (auto& runner : runners) {
      auto started = start_thread("worker " + std::to_string(threads.size()),
                                  [&runner = *runner] { runner.run(); });
      if (!started) {
        stop();
        return started.error();
      }
      threads.push_back(std::move(*started));
    }
    return ok();
  }

  void stop() {
    for (std::size_t i = 0; i < lcores.size() + threads.size(); ++i) {
      runners[i]->stop();
    }
    for (const unsigned lcore : lcores) {
      rte_eal_wait_lcore(lcore);
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    lcores.clear();
    threads.clear();
    running = false;
  }
};

Engine::Engine(const Config& config, const std::vector<Port*>& ports, const KeyTable& keys,
               Quiescence& quiescence)
    : state_(std::make_unique<State>()) {
  std::vector<Worker*> workers;
  for (std::uint32_t i = 0; i < config.workers; ++i) {
    const Runner::Config runner{.worker = {.index = i,
                                           .workers = config.workers,
                                           .ports = ports,
                                           .keys = &keys,
                                           .quiescence = &quiescence,
                                           .events = &state_->notices,
                                           .frames = &state_->notices,
                                           .paging = config.paging,
                                           .recovery = config.recovery,
                                           .direct = config.direct,
                                           .clock = monotonic_now},
                                .idle = config.idle,
                                .status = i < config.status.size() ? config.status[i] : nullptr};
    state_->runners.push_back(std::make_unique<Runner>(runner));
    workers.push_back(&state_->runners.back()->worker());
  }
  for (Worker* worker : workers) {
    worker->set_peers(workers);
  }
}

Engine::~Engine() { stop(); }

Status Engine::start() {
  UROCE_CHECK(!state_->running);
  const bool usable = std::all_of(state_->runners.begin(), state_->runners.end(),
                                  [](const auto& runner) { return runner->usable(); });
  if (!usable || notice_descriptor() < 0) {
    return Error{EMFILE,
                 "the workers can't be started: the daemon has no descriptors left "
                 "(ulimit -n)"};
  }
  if (Status started = eal_is_running() ? state_->start_on_lcores() : state_->start_on_threads();
      !started) {
    return started;
  }
  state_->running = true;
  return ok();
}

void Engine::stop() { state_->stop(); }

std::uint32_t Engine::workers() const { return static_cast<std::uint32_t>(state_->runners.size()); }

const Heartbeat& Engine::heartbeat(std::uint32_t worker) const {
  return state_->runners[worker]->heartbeat();
}

bool Engine::running() const { return state_->running; }

void Engine::run(std::uint32_t worker, const std::function<void(Worker&)>& task) {
  if (state_->call(worker, task, Mailbox::kStuckMax) != Mailbox::CallStatus::kDone) {
    end_process(worker, heartbeat(worker).thread());
  }
}

void Engine::call_on_thread(std::uint32_t worker, const std::function<void(Worker&)>& task) {
  UROCE_CHECK(state_->running);
  if (state_->runners[worker]->mailbox().call(task) != Mailbox::CallStatus::kDone) {
    end_process(worker, heartbeat(worker).thread());
  }
}

bool Engine::try_call(std::uint32_t worker, const std::function<void(Worker&)>& task) {
  const auto called = state_->call(worker, task, Mailbox::kStuckMaxLooking);
  if (called == Mailbox::CallStatus::kUnknown) {
    end_process(worker, heartbeat(worker).thread());
  }
  return called == Mailbox::CallStatus::kDone;
}

void Engine::wake(std::uint32_t worker) { state_->runners[worker]->wakeup().wake(); }

int Engine::notice_descriptor() const { return state_->notices.descriptor(); }

bool Engine::next_notice(Notice* notice) { return state_->notices.next(notice); }
bool Engine::notices_wait() const { return state_->notices.waiting(); }

bool Engine::send_frame(std::uint16_t port, std::span<const std::byte> frame) {
  return state_->runners[0]->mailbox().send_frame(port, frame);
}

std::uint64_t Engine::notices_dropped() const { return state_->notices.dropped(); }

}  // namespace uroce
