#pragma once

// The CM messages of a capture of a real peer, sorted into connections.

#include <filesystem>
#include <string>
#include <vector>

#include "control/cm/mad.h"

namespace uroce::test {

struct Recorded {
  std::size_t number = 0;  // of the frame in the capture, from 1 as in tshark
  Gid source, destination;
  control::cm::Mad bytes{};
  control::cm::Envelope envelope;
};

// One connection: from its REQ on, everything that both sides said.
struct Recording {
  std::vector<Recorded> messages;

  // The first message of this kind; nullptr: there is none.
  template <typename Kind>
  [[nodiscard]] const Recorded* find() const {
    for (const Recorded& recorded : messages) {
      if (std::holds_alternative<Kind>(recorded.envelope.message)) {
        return &recorded;
      }
    }
    return nullptr;
  }
};

// All connections of a capture. Fails the running test if there is none.
std::vector<Recording> read_recordings(const std::string& capture);

// What a datagram to QP 1 carries these bytes in, as the daemon builds it.
std::vector<std::byte> frame_of(const Gid& source, const Gid& destination,
                                const control::cm::Mad& mad);

}  // namespace uroce::test
