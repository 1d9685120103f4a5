"""Local stand-in for framework.params.eal of DTS: the daemon chooses its EAL arguments itself."""


class EalParams:
    allowed_ports = ()
