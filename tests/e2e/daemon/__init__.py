"""The daemon in the field: busy, dying, restarted, short of resources, watched."""
