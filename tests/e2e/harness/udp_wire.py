"""Two namespaces joined by a veth pair, with udp ports: daemons and programs of a user who has no rights at all."""

import os

from .wires import Veth

NOBODY = ("setpriv", "--reuid", 65534, "--regid", 65534, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
          "--no-new-privs", "--pdeathsig", "KILL")
IPV4, IPV6 = 1, 2  # GID indices


class Udp(Veth):
    """At the ends listed in `ordinary`, daemon and programs run as user nobody."""

    ordinary = ("a", "b")
    spec = "udp"

    def _start(self, name, port, ip, prefix=(), arguments=()):
        end = name.removeprefix("uroced-")
        address = f"fd00:77::{1 if end == 'a' else 2}/64"
        namespace = next(namespace for namespace in self.namespaces if namespace.name == end)
        namespace.run("ip", "address", "add", address, "dev", "wire", "nodad")
        if end not in self.ordinary:
            return super()._start(name, port, [ip, address], prefix, arguments)
        os.chmod(self.setting.folder, 0o777)
        return super()._start(name, self.spec, [ip, address], [*prefix, *NOBODY], arguments[2:])

    def _join(self):
        super()._join()
        for end, name in ((self.server, "a"), (self.client, "b")):
            if name in self.ordinary:
                end.prefix = [*end.prefix, *NOBODY]

    def know_by_ipv6(self):
        """From now on programs connect to the IPv6 addresses."""
        self.server.address, self.client.address = "fd00:77::1", "fd00:77::2"


class UdpAndAfPacket(Udp):
    """The server's end is a udp port, the client's an af_packet one, which would get GSO datagrams unsegmented over a
    veth pair: so datagrams are sent one by one."""

    ordinary = ("a",)
    spec = "udp,segments=1"


class AfPacketAndUdp(UdpAndAfPacket):
    """The other way round."""

    ordinary = ("b",)
