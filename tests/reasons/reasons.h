#pragma once

// Notes which reasons our code really gave while a test program ran (README.md). From any thread.

#include <cstdint>
#include <span>

#include "abi/completion.h"
#include "dataplane/wire/drop.h"
#include "dataplane/wire/packet.h"

namespace uroce::test {

void note(Drop drop);
void note(abi::WcStatus status);
// A worker's counters: index: Drop.
void note_drops(std::span<const std::uint64_t> drops);
// The NAK code, if the packet carries one: of our responder, or to our completer.
void note_sent(const Packet& packet);
void note_received(const Packet& packet);

}  // namespace uroce::test
