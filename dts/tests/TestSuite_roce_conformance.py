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
            The answers, completions, events, states and memory are those that the case names, and no others.
        """
    return func_test(play)


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceConformance(RoceSuite):
    """tests/conformance/cases; its README says what the lines mean.

    Each packet by itself, so the card keeps nothing that comes ahead of a missing one.
    """

    daemon_arguments = ("--recovery", "go-back-n")


for _script in scripts():
    setattr(TestRoceConformance, f"{_script.file}__{_script.name}", _case(_script))
