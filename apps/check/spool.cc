#include "apps/check/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/system_error.h"

namespace uroce::check {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunk = std::size_t{1} << 16U;

// It goes with its last descriptor, however this program ends.
Result<UniqueFd> file_without_name() {
  std::string path = environment("TMPDIR").value_or("/tmp") + "/uroce-check-XXXXXX";
  UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file.valid()) {
    return system_error(("can't make the temporary file " + path).c_str());
  }
  ::unlink(path.c_str());
  return file;
}

Status write_all(int to, const char* bytes, std::size_t length) {
  while (length > 0) {
    const ssize_t written = ::write(to, bytes, length);
    if (written < 0 && errno != EINTR) {
      return system_error("can't copy it to a temporary file (TMPDIR names another folder)");
    }
    const std::size_t done = written > 0 ? static_cast<std::size_t>(written) : 0;
    bytes += done;
    length -= done;
  }
  return ok();
}

Status copy(int from, int to, std::size_t bytes_max) {
  std::vector<char> chunk(kChunk);
  for (std::size_t total = 0;;) {
    const ssize_t got = ::read(from, chunk.data(), chunk.size());
    if (got < 0 && errno != EINTR) {
      return system_error("can't be read");
    }
    if (got == 0) {
      return ok();
    }
    const std::size_t length = got > 0 ? static_cast<std::size_t>(got) : 0;
    total += length;
    if (total > bytes_max) {
      return Error{EFBIG, "through a pipe at most " + std::to_string(bytes_max) +
                              " bytes are taken; name a file"};
    }
    if (Status written = write_all(to, chunk.data(), length); !written) {
      return written;
    }
  }
}

}  // namespace

Result<Source> open_source(const fs::path& named, std::size_t bytes_max) {
  const bool standard_input = named == "-" || named == "/dev/stdin";
  const fs::path file = standard_input ? "/dev/stdin" : named;
  std::error_code failure;
  const auto kind = fs::status(file, failure).type();
  // Of what isn't there, and of a folder, the reader says so.
  const bool once = kind == fs::file_type::fifo || kind == fs::file_type::character ||
                    kind == fs::file_type::socket;
  if (!once) {
    return Source{.file = file, .spooled = {}};
  }
  const UniqueFd in(standard_input ? ::dup(STDIN_FILENO)
                                   : ::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in.valid()) {
    return system_error(named.c_str());
  }
  auto out = file_without_name();
  if (!out) {
    return out.error();
  }
  if (Status copied = copy(in.get(), out->get(), bytes_max); !copied) {
    return Error{copied.error().code, named.string() + ": " + copied.error().message};
  }
  return Source{.file = "/proc/self/fd/" + std::to_string(out->get()), .spooled = std::move(*out)};
}

}  // namespace uroce::check
