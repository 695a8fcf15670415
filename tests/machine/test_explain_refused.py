# SPDX-License-Identifier: Apache-2.0
"""``--explain`` where the kernel refuses a part of the trace."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agents import read
from rtgauge.stream import Trace
from rtgauge.target.local import find_agent

TRACING = "/sys/kernel/tracing"
# Instances can be made there, and nothing in them can be set.
EMPTY = f"mount -t tmpfs none {TRACING} && mkdir {TRACING}/instances"


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare") or not Path(TRACING).is_dir(),
    reason="a folder in the place of tracefs needs root, and the folder",
)
def test_an_instance_that_cannot_be_set_up_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cost, samples or snapshots of a trace that there is not."""
    monkeypatch.setenv("RTGAUGE_STATE", str(tmp_path / "state"))
    path = tmp_path / "stream.cbor"
    script = f'{EMPTY}; "$@" >&2; ls {TRACING}/instances'
    words = [str(find_agent()), "run", "timer", "--samples", "50", "--explain"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *words, "--output", str(path)],
        stdout=subprocess.PIPE, check=False, timeout=60,
    )  # fmt: skip
    stream = read(path)
    found = [one for one in stream.records if isinstance(one, Trace)]
    assert [one.part for one in found] == ["lost"]
    assert "cannot make a trace instance" in str(found[0].fields["reason"])
    assert stream.trailer is not None
    assert stream.trailer.state == "complete"
    assert done.stdout == b""
