#include "control/cm/reject_reason.h"

namespace uroce::control::cm {

std::string_view name_of(RejectReason reason) {
  switch (reason) {
#define UROCE_REJECT(enumerator, code, name, explanation) \
  case RejectReason::enumerator:                          \
    return name;
#include "control/cm/reject_reason.def"
#undef UROCE_REJECT
  }
  return "unknown";
}

std::string_view explanation_of(RejectReason reason) {
  switch (reason) {
#define UROCE_REJECT(enumerator, code, name, explanation) \
  case RejectReason::enumerator:                          \
    return explanation;
#include "control/cm/reject_reason.def"
#undef UROCE_REJECT
  }
  return "the peer gave a reason that the specification doesn't list";
}

}  // namespace uroce::control::cm
