"""Shared by the suites: packets, the daemon's console, a bench with both, the conformance corpus."""
