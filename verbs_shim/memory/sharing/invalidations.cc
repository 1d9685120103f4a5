#include "verbs_shim/memory/sharing/invalidations.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "abi/version.h"

namespace uroce::shim {
namespace {

using abi::PagingHeader;
using abi::PagingKind;

// System calls rather than libc's functions, which are cancellation points.
bool send_all(int socket, const void* record, std::size_t length) {
  long sent = 0;
  do {
    sent = ::syscall(SYS_sendto, socket, record, length, MSG_NOSIGNAL, nullptr, 0);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<long>(length);
}

bool receive_answer(int socket, std::uint32_t sequence) {
  PagingHeader answer;
  long got = 0;
  do {
    got = ::syscall(SYS_recvfrom, socket, &answer, sizeof(answer), 0, nullptr, nullptr);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<long>(sizeof(answer)) && answer.magic == abi::kPagingMagic &&
         answer.kind == PagingKind::kInvalidated && answer.sequence == sequence;
}

PagingHeader header_of(PagingKind kind, std::uint32_t sequence, std::size_t length) {
  return {.magic = abi::kPagingMagic,
          .version = abi::kVersion,
          .kind = kind,
          .sequence = sequence,
          .length = static_cast<std::uint32_t>(length),
          .descriptor_count = 0};
}

// The connection is unusable, so the daemon must stop using it, too: it drops this program's
// memory. (If the program has closed the socket, the daemon knows already.)
void shut_down_session(VerifiedDescriptor& socket) {
  ::shutdown(socket.get(), SHUT_RDWR);
  socket = {};
}

}  // namespace

unsigned Invalidations::add(const VerifiedDescriptor& socket) {
  for (unsigned place = 0; place < kSessionsMax; ++place) {
    Session& session = sessions_[place];
    pthread_mutex_lock(&session.mutex);
    const bool free = !session.socket.kept();
    if (free) {
      session.socket = socket;
      session.sequence = 0;
    }
    pthread_mutex_unlock(&session.mutex);
    if (free) {
      return place;
    }
  }
  return kSessionsMax;
}

void Invalidations::remove(unsigned place) {
  pthread_mutex_lock(&sessions_[place].mutex);
  sessions_[place].socket = {};
  pthread_mutex_unlock(&sessions_[place].mutex);
}

void Invalidations::announce(std::uint64_t start, std::uint64_t end, abi::InvalidateReason reason,
                             Announced* announced) {
  for (unsigned place = 0; place < kSessionsMax; ++place) {
    Session& session = sessions_[place];
    announced->sequence[place] = 0;
    pthread_mutex_lock(&session.mutex);
    if (session.socket.kept()) {
      const int socket = session.socket.get();
      session.sequence = std::max(session.sequence + 1, 1U);
      const abi::Invalidate question{
          .header = header_of(PagingKind::kInvalidate, session.sequence, sizeof(question)),
          .address = start,
          .length = end - start,
          .reason = reason,
          .reserved = 0};
      if (send_all(socket, &question, sizeof(question)) &&
          receive_answer(socket, session.sequence)) {
        announced->sequence[place] = session.sequence;
      } else {
        shut_down_session(session.socket);
      }
    }
    pthread_mutex_unlock(&session.mutex);
  }
}

void Invalidations::finish(const Announced& announced) {
  for (unsigned place = 0; place < kSessionsMax; ++place) {
    Session& session = sessions_[place];
    if (announced.sequence[place] == 0) {
      continue;
    }
    pthread_mutex_lock(&session.mutex);
    if (session.socket.kept()) {
      const PagingHeader end =
          header_of(PagingKind::kInvalidateEnd, announced.sequence[place], sizeof(end));
      if (!send_all(session.socket.get(), &end, sizeof(end))) {
        shut_down_session(session.socket);
      }
    }
    pthread_mutex_unlock(&session.mutex);
  }
}

void Invalidations::reset() {
  for (Session& session : sessions_) {
    session.mutex = PTHREAD_MUTEX_INITIALIZER;
    session.socket.end();
  }
}

}  // namespace uroce::shim
