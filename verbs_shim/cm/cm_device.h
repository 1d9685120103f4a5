#pragma once

// Emulates librdmacm's character device, /dev/infiniband/rdma_cm, inside the program.
//
// An event channel is an epoll instance that watches a socket from the daemon, so that poll, epoll
// and O_NONBLOCK work as on the device, and go on to when there is another daemon
// (channel_table.h). Commands (rdma/rdma_user_cm.h) are sent over one connection of the process to
// the daemon. Any thread may call.

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

// Executes a command that librdmacm wrote to the device. Waits for an event if it is GET_EVENT and
// the descriptor isn't non-blocking. As write(): `length`, or -1 with errno.
ssize_t write_cm_command(int descriptor, const void* bytes, std::size_t length);

// Destroys the channel's ids and closes the descriptor. As close().
int close_cm_channel(int descriptor);

// For a fork's child: the connection belongs to the parent.
void abandon_cm_channels_after_fork();

// Makes the status of a channel look like that of the character device.
void report_as_device(struct stat* status);

// Redirects librdmacm's calls of open, write, close and fstat here (librdmacm_hooks.cc). May be
// called at any time, repeatedly.
void hook_librdmacm();
// For fork handling: while locked, no thread is hooking librdmacm or holding the dynamic linker's
// lock for it.
void lock_librdmacm_hooks();
void unlock_librdmacm_hooks();

}  // namespace uroce::shim
