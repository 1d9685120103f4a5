"""Suites of others and of dts/, run whole."""
