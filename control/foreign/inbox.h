#pragma once

// Records with descriptors, received by a helper: it receives them, examines the descriptors, and
// closes those that the daemon might block on. The thread that serves the program gets the rest.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "base/sockets/record_socket.h"
#include "control/foreign/foreign_socket.h"
#include "mmu/backing_file.h"

namespace uroce::control {

class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  struct Arrival {
    std::uint64_t tag = 0;
    ReceiveStatus receipt = ReceiveStatus::kNothing;
    // Its descriptors can be used and closed on any thread; an invalid one replaces one that can't.
    std::shared_ptr<Record> record;
    std::vector<OpenedFile> opened;
  };
  // Opens, on the helper, files that a record names; by default none.
  using Open = std::function<std::vector<OpenedFile>(const Record&)>;

  using Arrivals = std::list<Arrival>;

  // Lets a helper receive the record at the head of the socket; HelperPool::descriptor() is
  // readable when it has arrived; ReceiveStatus::kClosed if the helper had no memory. EBUSY: not
  // started.
  Status fetch(HelperPool& helpers, const User& user,
               const std::shared_ptr<const ForeignSocket>& socket, std::uint64_t tag,
               Open open = {});
  // The same for a record that is received already.
  Status open(HelperPool& helpers, const User& user, Record record, std::uint64_t tag, Open open);

  // Records that have arrived since the last call, in order.
  Arrivals take();

 private:
  static std::shared_ptr<Arrivals> place_for(std::uint64_t tag, Record record);
  void arrive(Arrivals& place, const std::function<void(Arrival&)>& fill);

  std::mutex mutex_;  // guards what follows
  Arrivals arrived_;
};

}  // namespace uroce::control
