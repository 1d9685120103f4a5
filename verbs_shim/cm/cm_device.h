#pragma once

// The character device that librdmacm talks to, /dev/infiniband/rdma_cm, played in the program.
//
// An event channel is a socket from the daemon, readable exactly while events wait, so that poll,
// epoll and O_NONBLOCK mean what they mean on the device. Commands (rdma/rdma_user_cm.h) travel as
// they are over one connection of the process to the daemon. Any thread may call.

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>

namespace uroce::shim {

// Whether this path is the device's.
bool is_cm_device(const char* path);

// A new event channel's descriptor, or -1 with errno.
int open_cm_channel();

// Whether the descriptor is a channel of this process.
bool is_cm_channel(int descriptor);

// The command that librdmacm wrote to the device. Waits for an event if it is GET_EVENT and the
// descriptor isn't non-blocking. As write(): `length`, or -1 with errno.
ssize_t write_cm_command(int descriptor, const void* bytes, std::size_t length);

// Destroys the channel's ids and closes the descriptor. As close().
int close_cm_channel(int descriptor);

// In a fork's child: the connection is the parent's.
void abandon_cm_channels_after_fork();

// Makes the status of a channel look like that of the character device.
void disguise_cm_channel(struct stat* status);

// Leads librdmacm's calls of open, write, close and fstat here (librdmacm_hooks.cc). May be called
// any time, and again.
void hook_librdmacm();
// For fork handling: nobody is half-way through it, and so in the dynamic linker's lock.
void lock_librdmacm_hooks();
void unlock_librdmacm_hooks();

}  // namespace uroce::shim
