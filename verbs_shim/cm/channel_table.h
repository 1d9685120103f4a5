#pragma once

// The open event channels by descriptor, and what is noted of their ids: the state that cm_channels
// and cm_ids share. All of it is guarded by one lock, which no command is executed under.
//
// The program's descriptor of a channel is an epoll instance, so that it stays the same open file,
// with all registrations that the program has made of it, while the sockets behind it change. It
// watches
// * the daemon's socket while an id of the channel is in use. When the daemon dies the socket is at
//   its end, and so readable, exactly in those channels that then have events to fetch;
// * beside it, the dead daemon's socket, once the channel is connected with the next daemon and
//   until the program has been told of all ids that it lost. A file of each channel's own: epoll
//   limits in how many instances one file is watched.

#include <pthread.h>

#include <cstdint>

#include "base/verified_descriptor.h"
#include "verbs_shim/cm/cm_objects.h"

namespace uroce::shim {

// The objects of one connection. They exist until it is gone and the program has destroyed the ids.
struct ConnectionObjects {
  CmObjects ids, memberships;
  std::uint64_t generation = 0;
  std::uint32_t count = 0;  // of ids
  bool connected = true;    // commands may still be using the connection
  ConnectionObjects* next = nullptr;
};

// Zeros are a descriptor that is no channel.
struct CmChannel {
  std::uint64_t serial = 0;  // no other channel has the same; 0: the descriptor is no channel
  VerifiedDescriptor file;   // the program's
  // From the daemon. Its number stays when it is another's: a thread may be about to wait there.
  VerifiedDescriptor socket;
  VerifiedDescriptor ended;  // a dead daemon's socket, always readable. Watched while it is kept
  std::uint32_t handle = 0;
  std::uint64_t generation = 0;  // of the connection to which it belongs
  bool lost = false;             // that connection is gone
  bool closing = false;          // is_closing(), if it is this process's
  std::uint32_t ids = 0;         // noted
  std::uint32_t ids_in_use = 0;  // of the connection
  std::uint32_t removals = 0;    // ids in use of connections that are gone: an event waits for each
  bool watches_socket = false;
  // Where the last lost id was found: lower handles of that generation are likely to be none.
  std::uint64_t found_generation = 0;
  std::uint32_t found_handle = 0;

  // Closes what the program doesn't know.
  void end_sockets();
};

class ChannelLock {
 public:
  ChannelLock();
  ~ChannelLock();
  ChannelLock(const ChannelLock&) = delete;
  ChannelLock& operator=(const ChannelLock&) = delete;
};

// The following require the lock.

// The place of the channel with this descriptor, which may be taken by one that the program has
// closed. nullptr: no memory, or the number is too high.
CmChannel* channel_place(int descriptor);
// nullptr: the descriptor isn't a channel's, or the program has closed it.
CmChannel* channel_of(int descriptor);
// The same without a system call, for descriptors that were looked at.
CmChannel* known_channel(int descriptor);
// nullptr: that channel was closed, or is being closed.
CmChannel* known_channel(int descriptor, std::uint64_t serial);

std::uint64_t new_serial();
// Whether it is the parent's, in a fork's child.
bool is_inherited(const CmChannel& channel);
// Whether the daemon is being told that it is closed: no more commands are begun.
bool is_closing(const CmChannel& channel);

// Makes the descriptor readable exactly while events wait. 0 or an errno value: it can't be
// watched.
int watch(CmChannel& channel);
// The channel's connection is gone, and with it the channel's ids.
void lose(CmChannel& channel);
// The daemon's socket is another one, of this connection. 0 or an errno value.
int reconnect(CmChannel& channel, UniqueFd socket, std::uint32_t handle, std::uint64_t generation);
// Takes it out of the table, with its ids. The caller closes its descriptors.
CmChannel take_out(CmChannel& channel, int descriptor);

// The connections of which there are objects have numbers that differ modulo this, so that handles
// may have them in their upper bits. librdmacm takes handles for ints.
inline constexpr std::uint32_t kConnectionsMax = (1U << 31U) / CmObjects::kHandlesMax;
// The smallest such number that is larger. 0: there is none.
std::uint64_t next_generation(std::uint64_t last);

// A connection's. nullptr: no memory, or all its ids are destroyed.
ConnectionObjects* make_objects(std::uint64_t generation);
ConnectionObjects* objects_of(std::uint64_t generation);
ConnectionObjects* all_objects();
// No command uses the connection any more.
void disconnect(ConnectionObjects& objects);
// The id isn't in use any more. REQUIRES: it is.
void end_use(const ConnectionObjects& objects, CmObject& id);
// The id is destroyed; so are its connection's objects, if it was the last.
void end_id(ConnectionObjects& objects, CmObject& id);

// For a fork's child.
void abandon_channel_table_after_fork();

}  // namespace uroce::shim
