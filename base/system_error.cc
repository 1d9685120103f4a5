#include "base/system_error.h"

#include <cerrno>
#include <string>
#include <system_error>

namespace uroce {

Error system_error(const char* what) {
  // A call that did less than it was asked for sets none.
  const int code = errno != 0 ? errno : EIO;
  return Error{code, std::string(what) + ": " + std::generic_category().message(code)};
}

}  // namespace uroce
