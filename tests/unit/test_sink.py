# SPDX-License-Identifier: Apache-2.0
"""The sink of the host: it discards, ends with its step, and only targets that reach it get one."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess

import pytest

from rtgauge.catalogue import Catalogue
from rtgauge.engine.sink import Sink, with_sink
from rtgauge.errors import TargetError
from rtgauge.plan import PlannedStep
from rtgauge.target.fake import FakeTarget
from rtgauge.target.local import LocalTarget, find_agent
from rtgauge.target.ssh import unfit


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    done = subprocess.run([find_agent(), "describe"], check=True, capture_output=True, timeout=20)
    return Catalogue.from_json(done.stdout)


def _connected(peer: str) -> socket.socket:
    address, port = peer.split("/")
    return socket.create_connection((address, int(port)), timeout=20)


def test_it_discards_what_several_send_and_ends() -> None:
    sink = Sink("127.0.0.1")
    with _connected(sink.peer) as one, _connected(sink.peer) as two:
        for _ in range(20):  # far more than the kernel keeps for a reader that does not read
            one.sendall(bytes(1 << 20))
            two.sendall(bytes(1 << 20))
        one.close()
        with _connected(sink.peer) as three:
            three.sendall(bytes(1 << 20))
        sink.close()
        with contextlib.suppress(ConnectionResetError):  # what it had not read yet
            assert two.recv(1) == b""
    with pytest.raises(OSError, match="refused"):
        _connected(sink.peer)


def test_it_takes_connections_from_its_senders_only() -> None:
    with contextlib.closing(Sink("127.0.0.1", {"127.0.0.2"})) as sink:
        with _connected(sink.peer) as stranger:
            assert stranger.recv(1) == b""
        address, port = sink.peer.split("/")
        own = ("127.0.0.2", 0)
        with socket.create_connection((address, int(port)), 20, own) as sender:
            sender.sendall(bytes(8 << 20))  # more than the kernel keeps without a reader


@pytest.mark.parametrize(
    ("address", "destination", "fault"),
    [
        ("192.0.2.7", {"192.0.2.9"}, ""),
        ("192.0.2.7", set(), ""),
        ("127.0.0.1", {"127.0.1.1"}, ""),
        ("127.0.0.1", {"192.0.2.9"}, "a loopback address"),
        ("127.0.0.1", set(), "a loopback address"),
        ("0.0.0.0", {"127.0.0.1"}, "not the address of one host"),
        ("224.0.0.1", {"192.0.2.9"}, "not the address of one host"),
        ("255.255.255.255", {"192.0.2.9"}, "not the address of one host"),
        ("999.1.1.1", {"192.0.2.9"}, "not IPv4"),
        ("::", {"192.0.2.9"}, "not IPv4"),
        ("", {"192.0.2.9"}, "not IPv4"),
    ],
)
def test_the_address_that_a_board_names(address: str, destination: set[str], fault: str) -> None:
    found = unfit(address, destination)
    assert found.startswith(fault) and bool(found) == bool(fault)


class Behind(LocalTarget):
    def host_address(self) -> str:
        return "192.0.2.1"  # of no machine


def test_a_step_gets_the_address_of_a_sink(catalogue: Catalogue) -> None:
    step = PlannedStep("timer", run={"load": "cpu,doload:peer=host,net:peer=host:pause=0"})
    with contextlib.ExitStack() as stack:
        changed = with_sink(stack, step, catalogue, LocalTarget())
        found = re.fullmatch(
            r"cpu,doload:peer=(127\.0\.0\.1/\d+),net:peer=\1:pause=0", changed.load
        )
        assert found is not None
        _connected(found[1]).close()
    with pytest.raises(OSError, match="refused"):
        _connected(found[1])
    assert catalogue.normalise_load(step.load) == step.load


def test_a_step_that_does_not_ask_is_left_alone(catalogue: Catalogue) -> None:
    for load in ("idle", "net", "net:peer=10.0.0.1/9", "walk:path=host", "copy:path=:peer=hostile"):
        step = PlannedStep("timer", run={"load": load})
        with contextlib.ExitStack() as stack:
            assert with_sink(stack, step, catalogue, FakeTarget("")) is step


def test_a_target_that_cannot_reach_the_host_is_refused(catalogue: Catalogue) -> None:
    step = PlannedStep("timer", run={"load": "net:peer=host"})
    with contextlib.ExitStack() as stack:
        with pytest.raises(TargetError, match="fake cannot reach this host over a network"):
            with_sink(stack, step, catalogue, FakeTarget(""))
        with pytest.raises(TargetError, match=r"192\.0\.2\.1, but rtgauge cannot") as raised:
            with_sink(stack, step, catalogue, Behind())
    assert "peer=ADDRESS/PORT" in raised.value.remedy


def test_an_option_of_a_profile_goes_to_the_loads_that_leave_it_open(catalogue: Catalogue) -> None:
    for text, normal in (
        ("doload:peer=10.0.0.1/9", "doload:peer=10.0.0.1/9"),
        ("doload:burst=1000ms", "doload:burst=1s"),
        ("find:path=/usr:restart=5000ms,cpu", "find:path=/usr:restart=5s,cpu"),
    ):
        assert catalogue.normalise_load(text) == normal
