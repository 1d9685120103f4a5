"""The library that interposes libc under `uroce run`, with answers that the daemon never gives."""

import os
import re
import subprocess
import sys

from tree.test_tree import NOBODY, TreeCase

# A program that serves its own tree (a "keeper"): `answer(question)` returns the datagrams of an answer.
_OWN_KEEPER = """
import os, socket, struct, sys, threading
place = os.environ["UROCE_TREE"]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(place + "/netlink")
listener.listen(16)
DONE, ERROR, MULTI, DUMP, CARD, MINE = 3, 2, 2, 0x301, 0x1401, 2

def message(kind, flags, question, body=b""):
    return struct.pack("IHHII", 16 + len(body), kind, flags, *struct.unpack_from("II", question, 8)) + body

accepted = set()
met = threading.Event()  # since then the other thread takes no numbers

def keep(answer):
    def serve():
        while True:
            asker = listener.accept()[0]
            accepted.add(asker.fileno())
            met.set()
            try:
                for datagram in answer(asker.recv(8192)):
                    asker.send(datagram)
            except OSError:  # the program has enough
                pass
            asker.close()
    threading.Thread(target=serve, daemon=True).start()

def whole(question):
    return [message(CARD, MULTI, question, b"body"), message(DONE, MULTI, question, bytes(4))]

def open_socket(protocol=20):
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    made.settimeout(5)
    return made

def ask(asker, sequence=7):
    if asker.getsockname()[0] == 0:
        asker.bind((0, 0))
    asker.send(struct.pack("IHHII", 16, CARD, DUMP, sequence, 0))
    return asker.getsockname()[0]
"""
_TRIES_MAX = 10


class Interposer(TreeCase):
    """Unusual programs under the interposing library, with answers that a real keeper never gives."""

    def program(self, script, shell="{}"):
        place = f"{self.folder}/own"
        os.makedirs(place, exist_ok=True)  # a program may be run again
        os.chown(place, NOBODY, NOBODY)
        name = f"{self.folder}/program.py"
        with open(name, "w", encoding="ascii") as file:
            file.write(_OWN_KEEPER + script)
        return self.shell(shell.format(f"UROCE_TREE={place} timeout 60 {sys.executable} {name}"))

    def test_answer_that_breaks_off(self):
        """The program gets EIO, with its own sequence number and port; also after more than its socket holds."""
        script = """
keep(lambda question: [message(CARD, MULTI, question, bytes(4000))] * many)
for many in (0, 1, 500):
    asker = open_socket()
    port = ask(asker, 7)
    for part in range(many):
        assert struct.unpack_from("IHHII", asker.recv(8192))[1:] == (CARD, MULTI, 7, port), part
    told = asker.recv(8192)
    print(struct.unpack_from("IHHIIi", told)[1:4], struct.unpack_from("I", told, 12)[0] == port, struct.unpack_from("i", told, 16)[0])
    asker.close()
"""
        self.assertEqual(self.program(script), "(2, 0, 7) True -5\n" * 3)

    def test_whole_answer_has_no_error_behind_it(self):
        script = """
keep(whole)
asker = open_socket()
for sequence in (1, 2):
    ask(asker, sequence)
    print([struct.unpack_from("IHHI", asker.recv(8192))[1::2] for _ in range(2)])
asker.setblocking(False)
try:
    print(asker.recv(8192))
except BlockingIOError:
    print("no more")
"""
        self.assertEqual(self.program(script), "[(5121, 1), (3, 1)]\n[(5121, 2), (3, 2)]\nno more\n")

    def test_numbers_that_a_program_uses_again(self):
        """A descriptor whose number was a closed socket's, or one of the library's, isn't touched by the library."""
        script = """
keep(lambda question: [message(CARD, MULTI, question, bytes(4000))] * 500)
asker = open_socket()
number = asker.fileno()
before = set(os.listdir("/proc/self/fd"))
ask(asker)
assert met.wait(60)
hidden = {int(name) for name in set(os.listdir("/proc/self/fd")) - before} - accepted
sockets = sorted(one for one in hidden if os.path.exists(f"/proc/self/fd/{one}"))
asker.close()
lower = []  # numbers that the other thread gave back meanwhile
def under(number, open_one):
    while (one := open_one()).fileno() < number:
        lower.append(one)
    if one.fileno() != number:  # what another thread opens may get it meanwhile
        print("taken")
        raise SystemExit
    return one
null = under(number, lambda: open("/dev/null", "rb", 0))
for one in sockets:
    os.dup2(null.fileno(), one)
null.close()
mine = under(number, lambda: open_socket(MINE))
mine.bind((0, 0))
other = open_socket(MINE)
other.bind((0, 0))
mine.sendto(struct.pack("IHHII", 16, 99, 0, 0, 0), (other.getsockname()[0], 0))
print(struct.unpack_from("IH", other.recv(100))[1])
mine.close()
again = under(number, open_socket)
print([one for one in sockets if not os.path.exists(f"/proc/self/fd/{one}")])
"""
        for _ in range(_TRIES_MAX):
            if not (printed := self.program(script)).endswith("taken\n"):
                break
        self.assertEqual(printed, "99\n[]\n")

    def test_everything_is_found_at_the_start(self):
        """A symbol lookup takes the loader's lock, which another thread may hold when a signal handler opens a file."""
        library = self.shell("echo ${LD_PRELOAD%%:*}").strip()
        symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
        ours = {line.split()[2].split("@")[0] for line in symbols.splitlines() if " T " in line} - {"canonicalize_file_name"}
        told = self.uroce("run", "--", "env", "LD_DEBUG=bindings", "true", **self.user()).stderr
        found = set(re.findall(r"binding file \S*liburoce_outside\S* \[0\] to \S*libc\S* \[0\]: normal symbol `(\w+)'", told))
        self.assertGreater(len(ours), 40)
        self.assertEqual(ours - found, set())

    def test_a_program_that_may_no_longer_look(self):
        """Its calls are passed on unchanged: to the kernel's own files, or to none."""
        script = """
import contextlib
os.chmod(place, 0)
with contextlib.suppress(FileNotFoundError):
    os.stat("/sys/class/infiniband")
"""
        self.assertEqual(self.program(script), "")

    def test_what_others_send(self):
        """Datagrams of others before the first question are dropped; later the kernel refuses them."""
        script = """
keep(whole)
asker = open_socket()
asker.bind((0, 0))
other = open_socket(MINE)
forged = message(CARD, MULTI, struct.pack("IHHII", 16, 0, 0, 7, asker.getsockname()[0]), b"forged")
other.sendto(forged, (asker.getsockname()[0], 0))
ask(asker)
print([asker.recv(8192)[16:] for _ in range(2)])
try:
    print(other.sendto(forged, (asker.getsockname()[0], 0)))
except ConnectionRefusedError:
    print("refused")
"""
        self.assertEqual(self.program(script), f"{[b'body', bytes(4)]}\nrefused\n")
