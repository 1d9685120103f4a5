"""Open MPI and MPICH, as Debian has them: collectives and one-sided operations, every value compared by the ranks.

Ranks of one machine use shared memory if they may; the options here leave them only the card.
"""

from harness.application import CARD_NAME, LOCKING_NOBODY, ApplicationCase

_SECONDS_MAX = 60
_BYTES_MIN = 10_000_000  # the least that the program transfers; the rest of a run's traffic is small
_UCX = {"UCX_TLS": "rc_v,ud_v,self", "UCX_NET_DEVICES": f"{CARD_NAME}:1"}
_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_OPEN_MPI_UCX = ("--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "^openib,ofi")
_OPEN_MPI_OFI = ("--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm",
                 "--mca", "btl", "self")
_OPEN_MPI_IDLE = ("--mca", "mpi_yield_when_idle", 1)  # there are fewer processors than ranks


class OneCard(ApplicationCase):
    user = LOCKING_NOBODY

    def _expect_right(self, end, launch, environment, ranks):
        out = launch.expect_success(_SECONDS_MAX)
        self.assertIn(f"all right with {ranks} ranks", out)
        self.expect_sent(_BYTES_MIN, end.daemon)

    def _open_mpi(self, ranks, components, environment, *arguments):
        self.need("mpirun.openmpi", "mpicc.openmpi")
        end, program = self.card(), self.compiled("mpi_check.c", "mpicc.openmpi")
        launch = self.start(end, "mpirun", "mpirun.openmpi", "-np", ranks, "--oversubscribe", *components,
                            *_OPEN_MPI_IDLE, program, *arguments, environment={**_ROOT, **environment})
        self._expect_right(end, launch, environment, ranks)

    def test_open_mpi_ucx(self):
        self.need_character_device()
        self._open_mpi(4, _OPEN_MPI_UCX, _UCX)

    def test_open_mpi_libfabric(self):
        self._open_mpi(2, _OPEN_MPI_OFI, {})

    def test_mpich_ucx(self):
        """Debian's MPICH has UCX only. MPIR_CVAR_NOLOCAL: no shared memory between ranks."""
        self.need("mpirun.mpich", "mpicc.mpich")
        self.need_character_device()
        end, program = self.card(), self.compiled("mpi_check.c", "mpicc.mpich")
        launch = self.start(end, "mpirun", "mpirun.mpich", "-np", 4, program,
                            environment={**_UCX, "MPIR_CVAR_NOLOCAL": "1"})
        self._expect_right(end, launch, _UCX, 4)


class TwoCards(ApplicationCase):
    """Two daemons joined by shared memory; half of the ranks use one card, half the other."""

    user = LOCKING_NOBODY
    environment = {}

    def _two(self):
        self.need_character_device()
        return self.ordinary(self.wire("shared_memory"))

    def _rank(self, end, program):
        """The command that starts it."""
        return [program]

    def _expect_right(self, launch, ends, ranks):
        self.assertIn(f"all right with {ranks} ranks", launch.expect_success(_SECONDS_MAX))
        self.expect_sent(_BYTES_MIN, *(end.daemon for end in ends))

    def test_open_mpi(self):
        self.need("mpirun.openmpi", "mpicc.openmpi")
        ends, program = self._two(), self.compiled("mpi_check.c", "mpicc.openmpi")
        halves = [["-np", 1, "-x", f"UROCE_SOCKET={end.daemon.socket}", *self._rank(end, program)]
                  for end in ends]
        launch = self.start(ends[0], "mpirun", "mpirun.openmpi", "--oversubscribe", *_OPEN_MPI_UCX, *_OPEN_MPI_IDLE,
                            *halves[0], ":", *halves[1], environment={**_ROOT, **_UCX, **self.environment})
        self._expect_right(launch, ends, 2)

    def test_mpich(self):
        self.need("mpirun.mpich", "mpicc.mpich")
        ends, program = self._two(), self.compiled("mpi_check.c", "mpicc.mpich")
        halves = [["-np", 2, "-env", "UROCE_SOCKET", end.daemon.socket, *self._rank(end, program)] for end in ends]
        launch = self.start(ends[0], "mpirun", "mpirun.mpich", *halves[0], ":", *halves[1],
                            environment={**_UCX, "MPIR_CVAR_NOLOCAL": "1"})
        self._expect_right(launch, ends, 4)


class TwoNamespaces(TwoCards):
    """As two machines: two network namespaces joined by a veth pair. The launcher is in the first and starts half of the ranks in the
    other, which takes root; Open MPI's ranks reach it by TCP over the veth pair, MPICH's by inherited descriptors."""

    user = ()
    environment = {"PMIX_MCA_ptl_base_if_include": "wire", "PMIX_MCA_ptl_base_remote_connections": "1"}

    def _two(self):
        self.need_character_device()
        return self.ordinary(self.wire("veth"))

    def _rank(self, end, program):
        return ["nsenter", f"--net=/proc/{end.pid}/ns/net", program]
