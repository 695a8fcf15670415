# SPDX-License-Identifier: Apache-2.0
"""Build a Debian package from the wheel in dist/: rtgauge and the Python packages that it needs.

``deb.py [PYTHON]...``: for each version of Python (3.11: bookworm, 3.13: trixie), into dist/. The
package has an environment of its own in /usr/lib/rtgauge, made from tools/requirements.lock, and
changes nothing of the system's Python. Installing it needs no network and no compiler, and it sets
PDFs.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from requirements import locked

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build" / "deb"
DIST: Final = ROOT / "dist"
HOME: Final = "usr/lib/rtgauge"
TIMEOUT_S: Final = 900.0
PYTHONS: Final = ("3.11", "3.13")
# What the libraries bring for those who develop or build against them.
NOT_NEEDED: Final = ("*/tests", "pyarrow/include", "pyarrow/src", "numpy/f2py", "bin")
CONTROL: Final = """\
Package: rtgauge
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {kib}
Depends: python3 (>= {python}), python3 (<< {after}), libc6
Suggests: openssh-client, qemu-system-x86 | qemu-system-arm
Section: utils
Priority: optional
Description: evaluates the real-time behaviour of Linux systems
 rtgauge measures how late a Linux system wakes threads, answers interrupts and
 does the other things that real-time programs rely on, idle and under load. It
 says whether the system keeps to a budget, how sure that is, and why not.
 .
 This package has the agents for all architectures, and the Python packages
 that rtgauge needs, in an environment of its own.
"""
POSTINST: Final = f"""\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
	/{HOME}/bin/python -m compileall -q /{HOME}/lib >/dev/null || true
fi
"""
PRERM: Final = f"""\
#!/bin/sh
set -e
find /{HOME}/lib -name __pycache__ -type d -prune -exec rm -r {{}} +
"""
COPYRIGHT: Final = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: rtgauge

Files: *
Copyright: © 2026 The rtgauge developers
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0. The
 licences of the Python packages are in their folders *.dist-info in
 /usr/lib/rtgauge.
"""


CHANGES: Final = """\
rtgauge ({version}) unstable; urgency=medium

  * Release {version}. NEWS.gz has the changes.

 -- {maintainer}  {date}
"""
# What lintian asks of libraries that Debian built. These are the wheels of the Python packages and
# the agents for boards, as their makers published them, in a folder that nothing else uses.
OVERRIDES: Final = """\
rtgauge: binary-from-other-architecture [usr/lib/rtgauge/*]
rtgauge: embedded-library *[usr/lib/rtgauge/*]
rtgauge: library-not-linked-against-libc [usr/lib/rtgauge/*]
rtgauge: shared-library-lacks-prerequisites [usr/lib/rtgauge/*]
rtgauge: unstripped-binary-or-object [usr/lib/rtgauge/*]
rtgauge: unusual-interpreter */usr/lib/rtgauge/bin/python *
"""


def run(*words: str | Path, **environment: str) -> str:
    """What a command prints. Raises CalledProcessError."""
    return subprocess.run(
        [str(word) for word in words],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    ).stdout


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def environment(folder: Path, wheel: Path, python: str) -> None:
    """A virtual environment for the system's Python, as it is to be in /usr/lib/rtgauge."""
    packages = folder / "lib" / f"python{python}" / "site-packages"
    pins = BUILD / "pins.txt"
    lines = locked(ROOT, []).splitlines()
    versions = [line.rstrip("\\ ") for line in lines if re.match(r"[a-zA-Z0-9]", line)]
    write(pins, "\n".join(versions) + "\n")
    run(
        sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
        "--target", packages, "--python-version", python, "--only-binary", ":all:",
        "--no-compile", "--constraint", pins, f"{wheel}[pdf]",
    )  # fmt: skip
    # what an environment contains in addition to the packages
    if (packages / "share").exists():
        shutil.move(packages / "share", folder / "share")
    for pattern in NOT_NEEDED:
        found = packages.rglob(pattern[2:]) if pattern.startswith("*/") else [packages / pattern]
        for path in list(found):
            shutil.rmtree(path, ignore_errors=True)
    write(
        folder / "pyvenv.cfg",
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n",
    )
    for library in packages.rglob("*.so*"):
        library.chmod(0o644)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to("../../../bin/python3")
    program = f"#!/{HOME}/bin/python\nimport sys\n\nfrom rtgauge.cli import main\n\n"
    write(folder / "bin" / "rtgauge", program + "sys.exit(main())\n", 0o755)


def build(wheel: Path, python: str) -> Path:
    """Build the package for one version of Python."""
    version = wheel.name.split("-")[1]
    tree = BUILD / python
    shutil.rmtree(tree, ignore_errors=True)
    environment(tree / HOME, wheel, python)
    (tree / "usr" / "bin").mkdir()
    (tree / "usr" / "bin" / "rtgauge").symlink_to("../lib/rtgauge/bin/rtgauge")
    # man pages and completion, which the wheel brings
    shutil.move(tree / HOME / "share", tree / "usr" / "share")
    for page in (tree / "usr" / "share" / "man" / "man1").iterdir():
        page.with_suffix(".1.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    zsh = tree / "usr" / "share" / "zsh"
    (zsh / "site-functions").rename(zsh / "vendor-completions")
    about = tree / "usr" / "share" / "doc" / "rtgauge"
    write(about / "copyright", COPYRIGHT)
    write(tree / "usr" / "share" / "lintian" / "overrides" / "rtgauge", OVERRIDES)
    maintainer = run("git", "-C", ROOT, "log", "-1", "--format=%an <%ae>").strip()
    date = run("git", "-C", ROOT, "log", "-1", "--format=%cD").strip()
    news = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    changes = CHANGES.format(version=version, maintainer=maintainer, date=date)
    for name, text in (("NEWS.gz", news), ("changelog.gz", changes)):
        (about / name).write_bytes(gzip.compress(text.encode(), mtime=0))
        (about / name).chmod(0o644)
    architecture = run("dpkg", "--print-architecture").strip()
    sizes = (path.lstat().st_size for path in tree.rglob("*") if not path.is_dir())
    major, minor = python.split(".")
    control = CONTROL.format(
        version=version,
        maintainer=maintainer,
        architecture=architecture,
        kib=sum(sizes) // 1024,
        python=python,
        after=f"{major}.{int(minor) + 1}",
    )
    write(tree / "DEBIAN" / "control", control)
    write(tree / "DEBIAN" / "postinst", POSTINST, 0o755)
    write(tree / "DEBIAN" / "prerm", PRERM, 0o755)
    built = DIST / f"rtgauge_{version}_python{python}_{architecture}.deb"
    epoch = run("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, built, SOURCE_DATE_EPOCH=epoch)
    return built


def main() -> None:
    """Build the packages named."""
    wheels = sorted(DIST.glob("rtgauge-*.whl"))
    if len(wheels) != 1:
        sys.exit(f"deb.py: dist/ has {len(wheels)} wheels. Run 'make wheel' in a clean dist/")
    for python in sys.argv[1:] or PYTHONS:
        built = build(wheels[0], python)
        print(f"{built.name}, {built.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
