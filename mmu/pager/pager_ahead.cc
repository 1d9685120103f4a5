// The pager's work while no fault waits: the rest of messages that faulted, and prefetching on
// request of programs.

#include <algorithm>
#include <utility>

#include "base/page.h"
#include "mmu/pager/pager.h"

namespace uroce {
namespace {

constexpr std::uint64_t kSliceBytes = Pager::kSlice * Mirror::kPage;

}  // namespace

// The rest of the fault's message, and more if the access is sequential.
void Pager::queue_read_ahead(const PageFault& fault) {
  const FaultRequest& request = fault.request;
  const std::uint64_t end = request.address + request.length;
  const ReadAhead::Range message{.first = page_floor(request.address),
                                 .end = page_ceil(end + std::min(request.ahead, kAheadMax))};
  queue_ahead(fault, {page_ceil(end), message.end}, false);
  if (!frugal_) {
    const std::uint64_t limit = std::min(request.limit, Mirror::kAddressEnd);
    queue_ahead(fault, read_ahead_.follow(fault.mirror.get(), request.write, message, limit), true);
  }
}

void Pager::queue_ahead(const PageFault& fault, const ReadAhead::Range& range, bool guess) {
  if (!range.empty() && ahead_.size() < kAheadEntries) {
    ahead_.push_back({.mirror = fault.mirror,
                      .first = range.first,
                      .end = page_ceil(range.end),
                      .write = fault.request.write,
                      .guess = guess});
  }
}

// A slice of the oldest item. Memory that nobody has requested yet doesn't justify an error: what
// isn't available now is left to a fault.
bool Pager::serve_ahead() {
  if (ahead_.empty()) {
    return false;
  }
  Ahead ahead = std::move(ahead_.front());
  ahead_.pop_front();
  const Mirror::PageRun run = ahead.mirror->find_run(
      ahead.first, std::min(ahead.end, ahead.first + kSliceBytes), ahead.write);
  switch (run.state) {
    case Mirror::State::kAbsent:
      // A file would get blocks, or dirty pages, that nobody writes to.
      if (ahead.guess && (frugal_ || (ahead.write && !run.anonymous))) {
        return true;
      }
      if (ahead.mirror->populate(run, ahead.write) == Mirror::Populated::kFailed) {
        return true;
      }
      break;
    case Mirror::State::kUnknown:
      ask_ahead(std::move(ahead));
      return true;
    case Mirror::State::kResident:
      break;
    default:
      return true;
  }
  ahead.first = run.end;
  ahead.asked = false;
  if (ahead.first < ahead.end) {
    ahead_.push_front(std::move(ahead));
  }
  return true;
}

// Asks the program once, and continues when it has answered.
void Pager::ask_ahead(Ahead ahead) {
  Work& work = work_of(ahead.mirror);
  if (std::exchange(ahead.asked, true) || work.aheads.size() >= kAheadsWaiting) {
    return drop_if_empty(ahead.mirror.get());
  }
  queue_chunk(work, Mirror::chunk_floor(ahead.first), ahead.write);
  work.aheads.push_back(std::move(ahead));
  ask_wanted();
}

void Pager::prefetch(Prefetch wanted, Time now) {
  auto job = std::make_unique<Job>();
  job->fault.request = {.address = wanted.address, .length = 0, .write = wanted.write};
  job->fault.mirror = wanted.mirror;
  take(job->fault, now);
  job->wanted = std::move(wanted);
  const User& user = job->wanted.mirror->user();
  jobs_.push(user, std::move(job));
}

bool Pager::serve_jobs(Time now) {
  if (jobs_.empty()) {
    return false;
  }
  std::unique_ptr<Job> job = jobs_.next();
  const std::shared_ptr<Mirror> mirror = job->wanted.mirror;
  Work& work = work_of(mirror);
  peer_.in_background(true);
  const bool more = run_slice(*job, now);
  peer_.in_background(false);
  if (more) {
    jobs_.push(mirror->user(), std::move(job));
  } else if (job->fault.outcome == Access::kNotResident) {
    job->fault.outcome = Access::kGranted;
    work.jobs.push_back(std::move(job));
  } else {
    finish(*job, job->fault.outcome);
  }
  ask_wanted();
  drop_if_empty(mirror.get());
  return true;
}

void Pager::finish(Job& job, Access outcome) {
  end(job.fault);
  if (job.wanted.done) {
    job.wanted.done(outcome);
  }
}

// Its program is gone, or can't be asked any more: the rest isn't needed.
void Pager::drop_jobs(Mirror* mirror) {
  const auto is_its = [mirror](const auto& job) { return job->wanted.mirror.get() == mirror; };
  for (const auto& job : jobs_.take_if(mirror->user(), is_its)) {
    finish(*job, Access::kLost);
  }
  if (const auto at = works_.find(mirror); at != works_.end()) {
    for (const auto& job : std::exchange(at->second.jobs, {})) {
      finish(*job, Access::kLost);
    }
  }
}

// One slice. True if there is more to do now; otherwise the job is done, has failed, or waits
// (kNotResident).
bool Pager::run_slice(Job& job, Time now) {
  FaultRequest& slice = job.fault.request;
  const std::uint64_t end = job.wanted.address + job.wanted.length;
  slice.length = std::min(end - slice.address, kSliceBytes - slice.address % kSliceBytes);
  if (!job.wanted.faulting) {
    job.wanted.mirror->adopt_present(page_floor(slice.address),
                                     page_ceil(slice.address + slice.length));
  } else {
    switch (step(work_of(job.wanted.mirror), job.fault, now)) {
      case Step::kFailed:
        return false;
      case Step::kWaiting:
        job.fault.outcome = Access::kNotResident;
        return false;
      case Step::kDone:
        break;
    }
  }
  slice.address += slice.length;
  take(job.fault, now);
  job.fault.asked = false;
  job.fault.refreshed = false;
  return slice.address < end;
}

}  // namespace uroce
