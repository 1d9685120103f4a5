#include "control/foreign/inbox.h"

#include <new>
#include <utility>

namespace uroce::control {
namespace {

// Closes descriptors that might block here, on the helper; the others keep their index.
void keep_recognised(Record& record) {
  for (UniqueFd& descriptor : record.descriptors) {
    if (!is_answering_file(descriptor.get())) {
      descriptor.reset();
    }
  }
}

}  // namespace

// Space for the record is allocated before the helper is asked, since the helper may find no
// memory.
std::shared_ptr<Inbox::Arrivals> Inbox::place_for(std::uint64_t tag, Record record) {
  auto place = std::make_shared<Arrivals>(1);
  place->front().tag = tag;
  place->front().record = std::make_shared<Record>(std::move(record));
  return place;
}

Status Inbox::fetch(HelperPool& helpers, const User& user,
                    const std::shared_ptr<const ForeignSocket>& socket, std::uint64_t tag,
                    Open open) {
  return helpers.run(user, [self = shared_from_this(), socket, open = std::move(open),
                            place = place_for(tag, {})] {
    self->arrive(*place, [&](Arrival& arrival) {
      arrival.receipt = receive_record(socket->get(), arrival.record.get());
      keep_recognised(*arrival.record);
      if (open && arrival.receipt == ReceiveStatus::kRecord) {
        arrival.opened = open(*arrival.record);
      }
    });
  });
}

Status Inbox::open(HelperPool& helpers, const User& user, Record record, std::uint64_t tag,
                   Open open) {
  return helpers.run(user, [self = shared_from_this(), open = std::move(open),
                            place = place_for(tag, std::move(record))] {
    self->arrive(*place, [&](Arrival& arrival) {
      arrival.receipt = ReceiveStatus::kRecord;
      arrival.opened = open(*arrival.record);
    });
  });
}

void Inbox::arrive(Arrivals& place, const std::function<void(Arrival&)>& fill) {
  try {
    fill(place.front());
  } catch (const std::bad_alloc&) {
    place.front().receipt = ReceiveStatus::kClosed;
    place.front().record->descriptors.clear();  // here on the helper, where closing may block
    place.front().opened.clear();
  }
  const std::lock_guard lock(mutex_);
  arrived_.splice(arrived_.end(), place);
}

Inbox::Arrivals Inbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(arrived_, {});
}

}  // namespace uroce::control
