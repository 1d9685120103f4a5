#include "base/sockets/program_connection.h"

#include <sys/auxv.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include "base/sockets/daemon_peer.h"
#include "base/sockets/socket_path.h"

namespace uroce {

OrRefusal<ProgramConnection> connect_program() noexcept {
  try {
    const std::string path = ::getauxval(AT_SECURE) != 0 ? kSocketDefault : program_socket();
    auto connected = connect_to_daemon(path);
    if (!connected) {
      const Error& error = connected.error();
      return Refusal{error.code, Sentence(error.message.c_str())};
    }
    ProgramConnection connection{std::move(*connected)};
    std::copy(path.begin(), path.end(), connection.path.begin());  // it is short enough: it is open
    return connection;
  } catch (const std::bad_alloc&) {
    return Refusal{ENOMEM, "the program has no memory left to connect to the daemon"};
  }
}

}  // namespace uroce
