#include "mmu/pager/pager.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/page.h"

namespace uroce {
namespace {

std::uint64_t first_page(const FaultRequest& request) { return page_floor(request.address); }
// Beyond the last page needed, or the start of the last page of the address space: an implicit
// region extends to there, and there is no address after the last page.
std::uint64_t end_page(const FaultRequest& request) {
  constexpr std::uint64_t kLastPage = page_floor(~std::uint64_t{0});
  const std::uint64_t room = kLastPage - std::min(request.address, kLastPage);
  return request.length > room ? kLastPage : page_ceil(request.address + request.length);
}

// Whether the program has answered about the page's chunk, and that is still valid: a page that
// isn't in the answer isn't mapped.
bool has_valid_answer(Mirror& mirror, const PageFault& fault, std::uint64_t page) {
  return fault.asked && fault.answered_chunk == Mirror::chunk_floor(page) &&
         !mirror.changed(fault.answered_changes, page, page + Mirror::kPage);
}

}  // namespace

bool Pager::serve(Time now) {
  std::array<PageFault*, kBatch> batch;
  std::size_t count = 0;
  while (count < kBatch && (batch[count] = queue_.next()) != nullptr) {
    take(*batch[count++], now);
  }
  if (count == 0) {
    jobs_turn_ = !jobs_turn_;
    return jobs_turn_ ? serve_jobs(now) || serve_ahead() : serve_ahead() || serve_jobs(now);
  }
  const std::span taken(batch.begin(), count);
  if (taken.size() > 1) {
    populate_adjacent(taken);
  }
  for (PageFault* fault : taken) {
    resolve(fault, now);
  }
  ask_wanted();
  return true;
}

// Faults on adjacent pages are populated by one call for all of them.
void Pager::populate_adjacent(std::span<PageFault*> batch) {
  std::sort(batch.begin(), batch.end(), [](const PageFault* a, const PageFault* b) {
    return std::tuple(a->mirror.get(), a->request.write, a->request.address) <
           std::tuple(b->mirror.get(), b->request.write, b->request.address);
  });
  for (std::size_t i = 0; i < batch.size();) {
    const PageFault& head = *batch[i];
    std::uint64_t end = end_page(head.request);
    std::size_t next = i + 1;
    while (next < batch.size() && batch[next]->mirror == head.mirror &&
           batch[next]->request.write == head.request.write &&
           first_page(batch[next]->request) <= end) {
      end = std::max(end, end_page(batch[next]->request));
      ++next;
    }
    if (next - i > 1) {
      populate(*head.mirror, first_page(head.request), end, head.request.write);
    }
    i = next;
  }
}

// Populates what needs no help from the program.
void Pager::populate(Mirror& mirror, std::uint64_t first, std::uint64_t end, bool write) {
  while (first < end) {
    const Mirror::PageRun run = mirror.find_run(first, end, write);
    if (run.state == Mirror::State::kOutside || run.end <= first) {
      return;
    }
    if (run.state == Mirror::State::kAbsent) {
      // The outcome doesn't matter: each fault checks for itself.
      (void)mirror.populate(run, write);
    }
    first = run.end;
  }
}

void Pager::resolve(PageFault* fault, Time now) {
  Work& work = work_of(fault->mirror);
  if (step(work, *fault, now) == Step::kWaiting) {
    work.waiting.push_back(fault);
    return;
  }
  finish(fault);
}

Pager::Step Pager::step(Work& work, PageFault& fault, Time now) {
  Mirror& mirror = *work.mirror;
  if (fault.request.address >= Mirror::kAddressEnd) {
    return fail(fault, first_page(fault.request), Access::kUnmapped);
  }
  const std::uint64_t end = end_page(fault.request);
  for (std::uint64_t page = first_page(fault.request); page < end;) {
    const Mirror::PageRun run = mirror.find_run(page, end, fault.request.write);
    // Doesn't ask the program for pages that nobody would wait for.
    const bool late = time_.update(now) >= fault.fails_at;
    Step step = Step::kDone;
    switch (run.state) {
      case Mirror::State::kResident:
        page = run.end;
        continue;
      case Mirror::State::kAbsent:
        switch (mirror.populate(run, fault.request.write)) {
          case Mirror::Populated::kDone:
            page = run.end;
            continue;
          case Mirror::Populated::kChanged:
            ++fault.retries;
            continue;
          case Mirror::Populated::kFailed:
            return fail(fault, page, Access::kLost);
        }
        break;
      case Mirror::State::kUnknown:
        step = late ? fail(fault, page, Access::kLate) : on_unknown(work, fault, page);
        break;
      case Mirror::State::kNoWrite:
        step = on_no_write(work, fault, page);
        break;
      case Mirror::State::kBlocked:
        step = Step::kWaiting;
        break;
      case Mirror::State::kClosed:
        step = fail(fault, page, Access::kLost);
        break;
      case Mirror::State::kOutside:
        step = fail(fault, page, Access::kUnmapped);
        break;
    }
    if (step == Step::kWaiting && late) {
      return fail(fault, page, Access::kLate);
    }
    return step;
  }
  return Step::kDone;
}

Pager::Step Pager::fail(PageFault& fault, std::uint64_t page, Access outcome) {
  fault.outcome = outcome;
  fault.failed_page = page;
  return Step::kFailed;
}

// If the program's description lacks this page, it isn't mapped, or is PROT_NONE, unless that has
// changed since.
Pager::Step Pager::on_unknown(Work& work, PageFault& fault, std::uint64_t page) {
  if (has_valid_answer(*work.mirror, fault, page)) {
    return fail(fault, page, Access::kUnmapped);
  }
  queue_chunk(work, Mirror::chunk_floor(page), fault.request.write);
  return Step::kWaiting;
}

// Rights can have grown since the program described the page: mprotect to more isn't announced.
Pager::Step Pager::on_no_write(Work& work, PageFault& fault, std::uint64_t page) {
  if (has_valid_answer(*work.mirror, fault, page) || fault.refreshed) {
    return fail(fault, page, Access::kNoRight);
  }
  fault.refreshed = true;
  peer_.forget(work.mirror, Mirror::chunk_floor(page), Mirror::chunk_floor(page) + Mirror::kChunk);
  return Step::kWaiting;
}

// Queues the chunk for a request to the program; ask() closes the mirror of a program that can't be
// asked.
void Pager::queue_chunk(Work& work, std::uint64_t chunk, bool write) {
  const bool under_way = std::any_of(
      work.questions.begin(), work.questions.end(),
      [&](const Question& question) { return chunk >= question.first && chunk < question.end; });
  if (!under_way) {
    wanted_[work.mirror.get()].push_back({chunk, write});
  }
}

// Adjacent chunks become one request.
void Pager::ask_wanted() {
  for (auto& [mirror, wanted] : std::exchange(wanted_, {})) {
    const auto at = works_.find(mirror);
    if (at == works_.end()) {
      continue;
    }
    const std::shared_ptr<Mirror> owner = at->second.mirror;
    std::sort(wanted.begin(), wanted.end(),
              [](const Wanted& a, const Wanted& b) { return a.chunk < b.chunk; });
    for (std::size_t i = 0; i < wanted.size();) {
      const std::uint64_t first = wanted[i].chunk;
      std::uint64_t end = first + Mirror::kChunk;
      bool write = wanted[i].write;
      for (++i; i < wanted.size() && wanted[i].chunk <= end && end - first < kAskMax; ++i) {
        write = write || wanted[i].write;
        end = wanted[i].chunk + Mirror::kChunk;
      }
      ask(owner, first, end, write);
    }
  }
}

void Pager::ask(const std::shared_ptr<Mirror>& mirror, std::uint64_t first, std::uint64_t end,
                bool write) {
  const std::uint32_t sequence = next_sequence_++;
  work_of(mirror).questions.push_back(
      {.sequence = sequence, .first = first, .end = end, .changes = mirror->changes()});
  if (!peer_.ask(*mirror, first, end, write, sequence)) {
    // Its program is gone; waiting faults fail now rather than later.
    mirror->close();
    work_of(mirror).questions.clear();
    peer_.retry_faults(mirror);
  }
}

void Pager::answered(const std::shared_ptr<Mirror>& mirror, std::uint32_t sequence,
                     std::uint64_t end, std::span<const MirrorPiece> pieces, Time now) {
  Work& work = work_of(mirror);
  const auto asked =
      std::find_if(work.questions.begin(), work.questions.end(),
                   [&](const Question& question) { return question.sequence == sequence; });
  if (asked == work.questions.end()) {
    drop_if_empty(mirror.get());
    return;
  }
  const Question question = *asked;
  work.questions.erase(asked);
  end = std::min(Mirror::chunk_floor(end), question.end);
  if (end > question.first) {
    mirror->describe(question.first, end, pieces, question.changes);
  } else {
    end = question.first + Mirror::kChunk;  // it can't tell: then nothing is mapped there
  }
  const auto note = [&](PageFault& fault) {
    for (std::uint64_t chunk = Mirror::chunk_floor(first_page(fault.request));
         chunk < end_page(fault.request); chunk += Mirror::kChunk) {
      if (chunk >= question.first && chunk < end) {
        fault.asked = true;
        fault.times.shared = now;
        fault.answered_chunk = chunk;
        fault.answered_changes = question.changes;
        return;
      }
    }
  };
  for (PageFault* fault : work.waiting) {
    note(*fault);
  }
  for (const auto& job : work.jobs) {
    note(job->fault);
  }
  for (Ahead& ahead : std::exchange(work.aheads, {})) {
    ahead_.push_back(std::move(ahead));
  }
  changed(mirror, now);
}

void Pager::changed(const std::shared_ptr<Mirror>& mirror, Time now) {
  if (mirror->closed()) {
    drop_jobs(mirror.get());
  }
  const auto at = works_.find(mirror.get());
  if (at == works_.end()) {
    return;
  }
  std::vector<PageFault*> waiting = std::exchange(at->second.waiting, {});
  for (auto& job : std::exchange(at->second.jobs, {})) {
    jobs_.push(mirror->user(), std::move(job));
  }
  if (mirror->closed()) {
    at->second.questions.clear();  // nobody will answer
    at->second.aheads.clear();
  }
  for (PageFault* fault : waiting) {
    resolve(fault, now);
  }
  ask_wanted();
  drop_if_empty(mirror.get());
}

void Pager::take(PageFault& fault, Time now) {
  end(fault);
  fault.times.taken = now;
  fault.fails_at = time_.update(now) + timeout_;
  ends_.insert({fault.fails_at, &fault});
}

Time Pager::deadline() const {
  return ends_.empty() ? kNever : time_.next_update(ends_.begin()->first);
}

void Pager::expire(Time now) {
  const Duration running = time_.update(now);
  for (std::uint32_t i = 0; i < kBatch && !ends_.empty() && ends_.begin()->first <= running; ++i) {
    PageFault& fault = *ends_.begin()->second;
    end(fault);
    expire_fault(fault, now);
  }
}

// Checks for a last time whether the wait is over: a fault here, a job when it has its turn.
void Pager::expire_fault(PageFault& fault, Time now) {
  const std::shared_ptr<Mirror> mirror = fault.mirror;
  const auto at = works_.find(mirror.get());
  if (at == works_.end()) {
    return;
  }
  Work& work = at->second;
  const auto waiting = std::find(work.waiting.begin(), work.waiting.end(), &fault);
  const auto job = std::find_if(work.jobs.begin(), work.jobs.end(),
                                [&](const auto& one) { return &one->fault == &fault; });
  const bool is_fault = waiting != work.waiting.end();
  if (is_fault) {
    work.waiting.erase(waiting);
  } else if (job != work.jobs.end()) {
    jobs_.push(mirror->user(), std::move(*job));
    work.jobs.erase(job);
  }
  if (work.waiting.empty() && work.jobs.empty()) {
    work.questions.clear();  // nobody waits for the answers any more
    work.aheads.clear();
  }
  if (is_fault) {
    resolve(&fault, now);
    ask_wanted();
  }
  drop_if_empty(mirror.get());
}

Pager::Work& Pager::work_of(const std::shared_ptr<Mirror>& mirror) {
  Work& work = works_[mirror.get()];
  work.mirror = mirror;
  return work;
}

void Pager::drop_if_empty(Mirror* mirror) {
  const auto at = works_.find(mirror);
  if (at != works_.end() && at->second.empty()) {
    works_.erase(at);
  }
}

void Pager::finish(PageFault* fault) {
  end(*fault);
  fault->times.populated = peer_.clock();
  fault->mirror->statistics().enter(*fault);
  queue_.journal.enter(*fault, fault->mirror->session());
  if (fault->outcome == Access::kGranted) {
    queue_read_ahead(*fault);
    queue_.add_duration(fault->times.populated - fault->times.raised);
  }
  Mirror* const mirror = fault->mirror.get();
  const std::shared_ptr<Mirror> hold = fault->mirror;
  queue_.resume(fault);
  drop_if_empty(mirror);
}

}  // namespace uroce
