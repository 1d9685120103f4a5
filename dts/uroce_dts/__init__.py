"""What the suites share: packets, the daemon's console, a bench with both, the conformance corpus."""
