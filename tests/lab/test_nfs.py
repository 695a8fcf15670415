# SPDX-License-Identifier: Apache-2.0
"""Throughput of NFS on boards that mount an export of their own memory over loopback, by Debian's
modules alone, and a step on an export that is full."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final

import pytest

from lab_modules import modules_of
from rtgauge.lab.boards import BOARDS
from rtgauge.stream import Record, StreamReader, Trailer, Work
from rtgauge.target.lab import LabTarget

BUSYBOX: Final = "/bin/busybox"
NAMES: Final = ("x86_64-stock-6.1", "x86_64-rt-6.1")
# The kernel gets the entries of exportfs and mountd: client, export and number of the export. The
# flags are insecure, no_root_squash, no_subtree_check and fsid=0.
MOUNT: Final = r"""
set -e
mkdir -p /export /mnt
mount -t tmpfs -o size=32m tmpfs /export
mount -t nfsd nfsd /proc/fs/nfsd
echo "-2 -3 +4" >/proc/fs/nfsd/versions
echo 10 >/proc/fs/nfsd/nfsv4leasetime
echo 10 >/proc/fs/nfsd/nfsv4gracetime
echo "tcp 2049" >/proc/fs/nfsd/portlist
echo 2 >/proc/fs/nfsd/threads
echo "nfsd 127.0.0.1 2147483647 lab" >/proc/net/rpc/auth.unix.ip/channel
echo "lab /export 2147483647 9218 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
echo 'lab 1 \x00000000 2147483647 /export' >/proc/net/rpc/nfsd.fh/channel
mount -t nfs4 -o vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1,sec=sys 127.0.0.1:/ /mnt
# the first write waits for the end of the grace period
echo there >/mnt/file
cat /export/file
rm /mnt/file
"""
LOAD: Final = "disk:path=/mnt:size=4MiB:sync=64KiB"
RUN: Final = ("/agent", "run", "timer", "--for", "2s", "--load", LOAD, "--output", "-")


@dataclass(frozen=True)
class Tried:
    """The results of a board: the KiB that were written, and the run on a full export."""

    written: int
    duration_ns: int
    full: list[Record]
    said: str
    left: str


def execute(board: LabTarget, script: str) -> str:
    done = board.execute([BUSYBOX, "sh", "-c", script])
    assert done.code == 0, done.stderr.decode()
    return done.stdout.decode()


def records(stream: bytes) -> list[Record]:
    return list(StreamReader().feed(stream))


def tried(name: str) -> Tried:
    modules = modules_of(BOARDS[name], ("nfsd", "nfsv4"))
    with contextlib.closing(LabTarget(name)) as board:
        for file, content in modules.items():
            board.put(f"/{file}", content)
            execute(board, f"insmod /{file}")
        assert execute(board, MOUNT) == "there\n"
        done = board.execute(RUN)
        assert done.code == 0, done.stderr.decode()
        found = records(done.stdout)
        assert isinstance(found[-1], Trailer)
        execute(board, "dd if=/dev/zero of=/export/other bs=64k 2>/dev/null || true")
        full = board.execute(RUN)
        assert full.code == 1
        return Tried(
            sum(one.count for one in found if isinstance(one, Work)),
            found[-1].duration_ns,
            records(full.stdout),
            full.stderr.decode(),
            execute(board, "ls -A /mnt; ps | grep load/ | grep -v grep || true"),
        )


@pytest.fixture(scope="module")
def boards() -> dict[str, Tried]:
    return {name: tried(name) for name in NAMES}


@pytest.mark.study(58)
def test_throughput_of_nfs_on_both_kernels(boards: dict[str, Tried]) -> None:
    """In counted time the difference is the number of instructions: locks that sleep, and threads
    for interrupts."""
    stock, rt = (boards[name] for name in NAMES)
    assert min(stock.written, rt.written) > 0
    rates = [one.written / one.duration_ns for one in (stock, rt)]
    print(f"KiB per s: {[round(rate * 1e9) for rate in rates]}, {1 - rates[1] / rates[0]:.1%} less")
    assert 0.5 * rates[0] < rates[1] < rates[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_full_export(boards: dict[str, Tried], name: str) -> None:
    found = boards[name]
    last = found.full[-1]
    assert isinstance(last, Trailer)
    assert last.state == "failed"
    assert last.reason == "load disk: cannot write in /mnt: No space left on device"
    assert last.remedy == "reduce size, or set path to another folder"
    assert len(found.said.strip().splitlines()) == 2
    assert found.left == "other\n"
