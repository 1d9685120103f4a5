"""The card's interfaces in /sys/class/net, under `uroce run --namespace`."""


from harness.application import INTERFACE, ApplicationCase

_SECONDS_MAX = 30
_OWN_SYS = 'mount -t sysfs sysfs /sys && exec "$@"'  # /sys shows the network namespace in which it was mounted
_SCRIPT = f"""cd /sys/class/net/{INTERFACE}
ls device/infiniband; realpath device; cat device/infiniband/uroce0/node_type; cat mtu; test -e statistics/rx_bytes; test -L subsystem/{INTERFACE}"""


class Interfaces(ApplicationCase):
    def test_its_device_names_the_card(self):
        end = self.card()
        own_sys = [*end.prefix[:-len(self.user)], "unshare", "--mount", "--propagation", "private", "sh", "-c", _OWN_SYS, "sh"]
        end.prefix = [*own_sys, *self.user]
        shown = self.start(end, "shown", self.tree.uroce, "run", "--namespace", "--", "env", "-u", "LD_PRELOAD", "-u", "UROCE_TREE",
                           "sh", "-ec", _SCRIPT)
        out = shown.wait(_SECONDS_MAX)
        if "user namespace" in shown.err():
            self.skipTest(shown.err().strip())
        self.assertEqual(out, 0, shown.last_words())
        self.assertEqual(shown.out().split("\n"), ["uroce0", "/sys/devices/pci7572:00/7572:00:00.0", "1: CA", "4200", ""])
