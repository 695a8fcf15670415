# SPDX-License-Identifier: Apache-2.0
"""A user without HOME, and without an entry in /etc/passwd either."""

from __future__ import annotations

import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Result
from rtgauge.errors import UsageError
from rtgauge.home import expanded, home

Command = Callable[..., Result]


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_uid: int) -> pwd.struct_passwd:
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", missing)


def test_without_home_the_entry_in_passwd_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    entry = pwd.struct_passwd(("u", "x", 1, 1, "", "/somewhere", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: entry)
    assert home() == Path("/somewhere")
    assert expanded("~/a") == Path("/somewhere/a")


@pytest.mark.usefixtures("nobody")
def test_without_both_one_line_says_so(
    rtgauge: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="neither HOME nor /etc/passwd"):
        home()
    assert expanded("/a") == Path("/a")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    # Nothing needs the folder where all others are named.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("RTGAUGE_STORE", str(tmp_path / "store"))
    (tmp_path / "store/runs").mkdir(parents=True)
    assert rtgauge("runs").code == 0
    for words in (("runs", "--store", "~/x"), ("lab", "list"), ("runs",)):
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.delenv("RTGAUGE_LAB_CACHE", raising=False)
        monkeypatch.delenv("RTGAUGE_STORE", raising=False)
        done = rtgauge(*words)
        assert done.code == 2
        assert len(done.err.splitlines()) == 2, done.err
        assert "HOME=" in done.err


def test_an_unknown_user_is_named() -> None:
    with pytest.raises(UsageError, match="this machine has no user nobody-at-all") as caught:
        expanded("~nobody-at-all/runs")
    assert "HOME" not in caught.value.remedy
