#pragma once

// Messages of the shim on the program's stderr: one line if there is no daemon (any more), a limit
// is reached or a privilege is missing (UROCE_QUIET=1 silences it), and with UROCE_DEBUG=1 the
// reason for every refused call.

namespace uroce::shim {

// Whether UROCE_DEBUG is set.
bool debugging();

// REQUIRES: `call` names the verb, `sentence` says why it was refused.
void explain(const char* call, int error, const char* sentence);

// explain(), then sets errno and returns the error, for verbs that report either way.
int refuse(const char* call, int error, const char* sentence);

// Prints a message for the user, once per process for each error.
void print_once(int error, const char* format, const char* first, const char* second);
// That the device is lost, once per process.
void print_loss(const char* sentence);

}  // namespace uroce::shim
