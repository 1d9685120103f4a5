"""Two namespaces with udp ports, joined through a third one: a router that loses packets in both directions."""

import json

from .namespace import veth_pair
from .udp_wire import Udp

_PARTS = 10_000  # in which the loss is given to nftables


class LossyUdp(Udp):
    """`loss` is a fraction of all packets. Offloads are off at the ends, so that single packets are lost, not
    aggregates that a kernel has made of many."""

    addresses = ("10.77.3.1", "10.77.4.1")
    routers = ("10.77.3.254", "10.77.4.254")
    loss = 0.01

    def _link(self, first, second):
        router = self.router = self._namespace("router")
        for end, side, address, gateway in zip((first, second), ("west", "east"), self.addresses, self.routers):
            veth_pair(end, router, self.mtu, [f"{address}/24", f"{gateway}/24"], ("wire", side))
            end.run("ip", "route", "add", "default", "via", gateway)
            for namespace, name in ((end, "wire"), (router, side)):
                namespace.run("ethtool", "-K", name, "tso", "off", "gso", "off", "gro", "off",
                              "tx-udp-segmentation", "off")
        router.run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        router.run("nft", "add table ip lossy; "
                   "add chain ip lossy forward { type filter hook forward priority 0; }; "
                   "add rule ip lossy forward counter; "
                   f"add rule ip lossy forward numgen random mod {_PARTS} < {round(self.loss * _PARTS)} counter drop")

    def packets(self):
        """(all, lost) so far."""
        rules = [item["rule"] for item in json.loads(self.router.run("nft", "-j", "list", "table", "ip", "lossy"))["nftables"]
                 if "rule" in item]
        return tuple(part["counter"]["packets"] for rule in rules for part in rule["expr"] if "counter" in part)
