"""What the cases are built from: processes, namespaces, daemons, wires, pairs of programs."""
