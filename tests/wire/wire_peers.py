"""Asks independent readers about packets that uroce built: tshark must decode each without a malformed mark and with the
fields that we meant, scapy must compute the same ICRC. Started by wire_peers with the folder of packets.pcap and
packets.tsv, which it removes. Exit code 77: a reader isn't installed."""

import csv
import shutil
import subprocess
import sys

# The columns of packets.tsv behind opcode, name, IP version and payload length, and what tshark calls them. An atomic's
# address and key stand under the names of the RETH's.
FIELDS = (
    "infiniband.bth.p_key", "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.se", "infiniband.bth.m",
    "infiniband.bth.a", "infiniband.reth.va", "infiniband.reth.r_key", "infiniband.reth.dmalen",
    "infiniband.aeth.syndrome", "infiniband.aeth.msn", "infiniband.deth.q_key", "infiniband.deth.srcqp",
    "infiniband.atomiceth.swapdt", "infiniband.atomiceth.cmpdt",
    "infiniband.atomicacketh.origremdt", "infiniband.immdt", "infiniband.ieth",
)

# What tshark 4.0 doesn't know: it shows the base transport header (the first fields) and takes the rest as payload.
UNKNOWN_TO_TSHARK = ("RC FLUSH", "RC ATOMIC WRITE", "XRC ")
BASE_FIELDS = 6


# Fields that tshark writes as bytes.
BYTES = ("infiniband.ieth", "infiniband.immdt")


def number(text, base=0):
    """A field's value as an integer; tshark writes some in hexadecimal and booleans as words."""
    words = {"": None, "True": 1, "False": 0}
    return words[text] if text in words else int(text, base)


def read_with_tshark(capture):
    """One list of texts a packet: malformed mark, opcode, pad count, ICRC, then FIELDS."""
    command = ["tshark", "-n", "-r", capture, "--disable-protocol", "rpcordma", "-T", "fields", "-E", "occurrence=f"]
    for field in ("_ws.malformed", "infiniband.bth.opcode", "infiniband.bth.padcnt", "infiniband.invariant.crc", *FIELDS):
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"tshark failed: {done.stderr}")
    return [line.split("\t") for line in done.stdout.splitlines()]


def compare_with_tshark(row, found):
    """The differences in what tshark read, as text."""
    opcode, name, _, length, *expected = row
    malformed, found_opcode, pad, _, *values = found
    if malformed:
        yield "malformed"
    if number(found_opcode) != int(opcode):
        yield f"opcode {found_opcode}"
    if number(pad) != -int(length) % 4:
        yield f"pad count {pad}"
    fields = BASE_FIELDS if name.startswith(UNKNOWN_TO_TSHARK) else len(FIELDS)
    for field, want, value in list(zip(FIELDS, expected, values))[:fields]:
        if number(want) != number(value, 16 if field in BYTES else 0):
            yield f"{field} is {value}, not {want}"


def compare_with_scapy(frame):
    """Whether scapy computes the ICRC that stands in the frame (bytes)."""
    from scapy.contrib.roce import BTH
    from scapy.layers.l2 import Ether
    packet = Ether(frame)
    return packet[BTH].compute_icrc(b"") == frame[-4:]


def main(folder):
    from scapy.utils import rdpcap
    with open(f"{folder}/packets.tsv", newline="", encoding="ascii") as table:
        rows = list(csv.reader(table, delimiter="\t"))
    found = read_with_tshark(f"{folder}/packets.pcap")
    frames = [bytes(packet) for packet in rdpcap(f"{folder}/packets.pcap")]
    if not len(rows) == len(found) == len(frames):
        sys.exit(f"{len(rows)} packets were built, tshark read {len(found)}, scapy {len(frames)}")
    wrong = 0
    checked_by_scapy = 0
    for index, (row, read, frame) in enumerate(zip(rows, found, frames), start=1):
        differences = list(compare_with_tshark(row, read))
        if row[2] == "4":  # scapy 2.5 sums IPv4 only
            checked_by_scapy += 1
            if not compare_with_scapy(frame):
                differences.append("scapy computes another ICRC")
        if differences:
            wrong += 1
            print(f"packet {index}, {row[1]}, {row[3]} bytes over IPv{row[2]}: {'; '.join(differences)}")
    print(f"{len(rows)} packets read by tshark, {checked_by_scapy} summed by scapy, {wrong} read otherwise than meant")
    return 1 if wrong else 0


if __name__ == "__main__":
    work = sys.argv[1]
    try:
        if shutil.which("tshark") is None:
            print("tshark isn't installed")
            sys.exit(77)
        try:
            import scapy.contrib.roce  # noqa: F401
        except ImportError:
            print("python3-scapy isn't installed")
            sys.exit(77)
        sys.exit(main(work))
    finally:
        shutil.rmtree(work)
