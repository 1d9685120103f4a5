#include "control/foreign/inbox.h"

#include <utility>

#include "mmu/backing_file.h"

namespace uroce::control {
namespace {

// Those that aren't known to answer are closed here, on the helper; they keep their place.
void keep_recognised(Record& record) {
  for (UniqueFd& descriptor : record.descriptors) {
    if (!is_answering_file(descriptor.get())) {
      descriptor.reset();
    }
  }
}

}  // namespace

Status Inbox::fetch(Helpers& helpers, const User& user,
                    const std::shared_ptr<const ForeignSocket>& socket, std::uint64_t tag,
                    Open open) {
  return helpers.run(user, [self = shared_from_this(), socket, tag, open = std::move(open)] {
    auto record = std::make_shared<Record>();
    const Receipt receipt = receive_record(socket->get(), record.get());
    keep_recognised(*record);
    std::vector<UniqueFd> opened =
        open && receipt == Receipt::kRecord ? open(*record) : std::vector<UniqueFd>();
    self->put({tag, receipt, std::move(record), std::move(opened)});
  });
}

Status Inbox::open(Helpers& helpers, const User& user, Record record, std::uint64_t tag,
                   Open open) {
  auto shared = std::make_shared<Record>(std::move(record));  // errands are copied
  return helpers.run(user, [self = shared_from_this(), shared, tag, open = std::move(open)] {
    self->put({tag, Receipt::kRecord, shared, open(*shared)});
  });
}

void Inbox::put(Arrival arrival) {
  const std::lock_guard lock(mutex_);
  arrived_.push_back(std::move(arrival));
}

std::vector<Inbox::Arrival> Inbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(arrived_, {});
}

}  // namespace uroce::control
