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

namespace uroce::control {

class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  struct Arrival {
    std::uint64_t tag = 0;
    ReceiveStatus receipt = ReceiveStatus::kNothing;
    // Its descriptors may be used and closed anywhere; not valid: one of a kind that may not.
    std::shared_ptr<Record> record;
    std::vector<UniqueFd> opened;
  };
  // What the helper opens of what a record names; nothing by default.
  using Open = std::function<std::vector<UniqueFd>(const Record&)>;

  using Arrivals = std::list<Arrival>;

  // Has the record at the head of the socket received; the helpers' descriptor is readable when it
  // is here; ReceiveStatus::kClosed if the helper found no memory. EBUSY, and then nothing has
  // happened.
  Status fetch(HelperPool& helpers, const User& user,
               const std::shared_ptr<const ForeignSocket>& socket, std::uint64_t tag,
               Open open = {});
  // The same with a record that is received already.
  Status open(HelperPool& helpers, const User& user, Record record, std::uint64_t tag, Open open);

  // What has arrived since, in order.
  Arrivals take();

 private:
  static std::shared_ptr<Arrivals> place_for(std::uint64_t tag, Record record);
  void arrive(Arrivals& place, const std::function<void(Arrival&)>& fill);

  std::mutex mutex_;  // guards what follows
  Arrivals arrived_;
};

}  // namespace uroce::control
