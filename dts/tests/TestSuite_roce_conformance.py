"""The conformance corpus, which the unit tests play in memory, on the wire: one case for each of its scripts."""

from api.capabilities import LinkTopology, requires_link_topology
from framework.test_suite import func_test

from uroce_dts.bench import RoceSuite
from uroce_dts.conformance import Player, scripts


def _case(script):
    def play(self) -> None:
        Player(self, script).play()

    play.__name__ = play.__qualname__ = f"{script.file}__{script.name}"
    play.__doc__ = f"""{script.name.replace('_', ' ')}.

        Steps:
            Send the packets of case {script.name} of {script.file}.case.

        Verify:
            The answers, completions, events, states and memory are exactly those of the case.
        """
    return func_test(play)


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceConformance(RoceSuite):
    """tests/conformance/cases; its README says what the lines mean.

    One packet at a time, and the card buffers no out-of-order packets.
    """

    daemon_arguments = ("--recovery", "go-back-n")


for _script in scripts():
    setattr(TestRoceConformance, f"{_script.file}__{_script.name}", _case(_script))
