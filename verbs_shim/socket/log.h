#pragma once

// Messages of the shim on the program's stderr: one line when there is no daemon, or when a limit
// or a right is missing (UROCE_QUIET=1 silences it), and with UROCE_DEBUG=1 the reason of every
// refused call.

namespace uroce::shim {

// Whether UROCE_DEBUG is set.
bool debugging();

// REQUIRES: `call` names the verb, `sentence` says why it was refused.
void explain(const char* call, int error, const char* sentence);

// explain(), then sets errno and returns the error, for verbs that report either way.
int refuse(const char* call, int error, const char* sentence);

// For the user, once a process for each error.
void complain_once(int error, const char* format, const char* first, const char* second);
// The same, whatever was said before.
void complain_of_loss(const char* sentence);

}  // namespace uroce::shim
