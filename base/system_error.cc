#include "base/system_error.h"

#include <cerrno>
#include <string>
#include <system_error>

namespace uroce {

Error system_error(const char* what) {
  const int code = errno;
  return Error{code, std::string(what) + ": " + std::generic_category().message(code)};
}

}  // namespace uroce
