"""Kinds of ports, their links and addresses."""
