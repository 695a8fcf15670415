#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Set up this checkout, so that .venv/bin/rtgauge runs from its sources:
#
#   tools/setup.sh          what running needs: Debian's packages, .venv, the agent
#   tools/setup.sh --lab    and what emulated boards need: a cross compiler, static agents
#                           (for one architecture, if that is named; for all eight: all)
#   tools/setup.sh --quick  and what `make quick` needs
#   tools/setup.sh --test   and what `make test` needs
#   tools/setup.sh --dev    and what `make check` needs
#   tools/setup.sh --nightly  what `make test` and the other stages of `make nightly` need
#
# Asks for nothing. Installs Debian packages only when something is missing, and then only as root
# or where `sudo -n` works. Does nothing twice, and continues an interrupted set-up.
# A second set-up at the same time waits. Progress goes to stderr, all else to build/setup.log.
set -eu

export LC_ALL=C
CDPATH='' cd -- "$(dirname -- "$0")/.."
. tools/stamp.sh

architecture="lab"
tools=""
case "${1-}" in
"") level=run levels="run lab dev" extras="" ;;
--lab) level=lab levels="lab dev" extras="lab" architecture=${2-lab} ;;
--quick | --test | --dev | --nightly) level=dev levels="dev" extras="lab test dev" tools=${1#--} ;;
*)
	echo "usage: tools/setup.sh [--lab [ARCHITECTURE] | --quick | --test | --dev | --nightly]" >&2
	exit 2
	;;
esac

log=build/setup.log
started=$(date +%s)
announced=""

say() {
	if [ -z "$announced" ]; then
		announced=yes
		echo "rtgauge: setting up $PWD" >&2
	fi
	echo "rtgauge:   $*" >&2
}

# fail TEXT REMEDY
fail() {
	echo "rtgauge: $1" >&2
	echo "rtgauge:   $2" >&2
	exit 1
}

# Run a command with its output in the log; when it fails, show the end of what it said. It holds
# the lock too (descriptor 9): should this script be killed, the next one waits for what it left.
logged() {
	echo "+ $*" >>"$log"
	from=$(wc -l <"$log")
	if "$@" >>"$log" 2>&1 </dev/null; then
		return 0
	fi
	tail -n +"$((from + 1))" "$log" | tail -n 30 | sed 's/^/  | /' >&2
	return 1
}

# --- Debian packages ---------------------------------------------------------------------------

# Sets as_root, the prefix of commands that need root. False if there is no way to be root.
as_root=""
can_install() {
	command -v apt-get >/dev/null || return 1
	[ "$(id -u)" = 0 ] && return 0
	sudo -n true >/dev/null 2>&1 || return 1
	as_root="sudo -n"
}

# apt may start what lives on: that must not hold the lock.
apt_install() {
	# shellcheck disable=SC2086 # as_root is several words or none
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 \
		install --no-install-recommends "$@" 9>&-
}

apt_update() {
	# shellcheck disable=SC2086
	$as_root apt-get -q -o DPkg::Lock::Timeout=600 update 9>&-
}

# Install what is named; the lists of packages are only fetched when they are missing or too old.
install_packages() {
	can_install || return 1
	say "Debian packages: $*"
	echo "+ apt-get install $*" >>"$log"
	apt_install "$@" >>"$log" 2>&1 </dev/null && return 0
	logged apt_update || return 1
	logged apt_install "$@"
}

# A Python that is new enough and can make virtual environments, as the path of the program
# itself (a shim of pyenv or the like may be another Python in another folder).
find_python() {
	for python in ${PYTHON:+"$PYTHON"} /usr/bin/python3 python3 python3.14 python3.13 python3.12 \
		python3.11; do
		"$python" -c 'if True:
			import sys, venv, ensurepip
			if sys.version_info < (3, 11) or sys.platform != "linux":
				sys.exit(1)
			print(sys.executable)' 2>/dev/null && return 0
	done
	return 1
}

compiles() {
	echo '#include <stdio.h>
		#include <linux/sched.h>
		#include <pthread.h>
		int main(void) { return puts(""); }' |
		${CC:-cc} -x c - -o /dev/null >/dev/null 2>&1
}

debian_packages() {
	wanted=""
	python=$(find_python) || wanted="python3 python3-venv"
	if ! compiles; then
		[ -z "${CC-}" ] || fail "the C compiler $CC cannot compile a small program" \
			"correct the environment variable CC, or unset it"
		wanted="${wanted:+$wanted }gcc libc6-dev linux-libc-dev"
	fi
	[ -n "$wanted" ] || return 0
	command -v make >/dev/null || wanted="$wanted make"
	[ -e /etc/ssl/certs/ca-certificates.crt ] || wanted="$wanted ca-certificates"
	# shellcheck disable=SC2086
	install_packages $wanted || fail "something is missing that rtgauge needs to run" \
		"install these packages (Debian's names) and start again: $wanted"
	if ! python=$(find_python); then
		# Ubuntu 22.04 has 3.10 as its own, and 3.11 as well.
		say "Debian packages: python3.11 python3.11-venv"
		! can_install || apt_install python3.11 python3.11-venv >>"$log" 2>&1 </dev/null || true
		python=$(find_python) ||
			fail "Python 3.11 or newer with its modules venv and ensurepip is needed" \
				"use Debian 12, Ubuntu 24.04 or newer, or name one: PYTHON=/path/to/python3"
	fi
	compiles || fail "the C compiler cc cannot compile a small program" \
		"install the packages gcc, libc6-dev and linux-libc-dev"
}

# Tools of the lanes, each as "command package", or a file in place of the command.
quick_tools="clang-format clang-format
shellcheck shellcheck
pdftotext poppler-utils
git git"
test_tools="$quick_tools
cpio cpio
qemu-system-x86_64 qemu-system-x86
busybox busybox"
dev_tools="$test_tools
clang clang
chromium chromium
valgrind valgrind
cyclictest rt-tests
hackbench rt-tests
jitterdebugger jitterdebugger
qemu-system-aarch64 qemu-system-arm
aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
sparse sparse"
# Those of docs/how-to/rt-kernel.md, which the stage `kernel` executes.
nightly_tools="$test_tools
dpkg-buildpackage build-essential
dh debhelper
flex flex
bison bison
bc bc
rsync rsync
depmod kmod
/usr/include/libelf.h libelf-dev
/usr/include/openssl/ssl.h libssl-dev"
sources=linux-source-6.12

# Tests that need what is not available are skipped with that reason.
optional_tools() {
	command -v sigrok-cli >/dev/null || install_packages sigrok-cli || say "without sigrok-cli"
	[ "$tools" != nightly ] || [ -e /usr/src/$sources.tar.xz ] || install_packages $sources ||
		say "without $sources"
}

# gcc for 32 bits has no command of its own. Debian's gcc-multilib excludes cross compilers; the package
# below it does not, and lacks but a link to the headers.
missing_multilib() {
	[ "$(uname -m)" = x86_64 ] || return 0
	echo '#include <errno.h>
		#include <stdio.h>
		int main(void) { return puts("") + errno; }' |
		gcc -m32 -idirafter "/usr/include/$(gcc -print-multiarch)" -x c - -o /dev/null \
			>/dev/null 2>&1 || echo "gcc-$(gcc -dumpversion | cut -d. -f1)-multilib"
}

# A server is only installed where that does not start it: where the machine's policy for packages is
# to start none, as it is in containers. Elsewhere the tests that need one are skipped, unless it is
# there already.
missing_server() {
	[ ! -x /usr/sbin/sshd ] && [ -x /usr/sbin/policy-rc.d ] || return 0
	policy=0
	/usr/sbin/policy-rc.d ssh start >/dev/null 2>&1 || policy=$?
	[ "$policy" != 101 ] || echo openssh-server
}

# The package with static programs is five times as large, and has the kernel start foreign programs
# by itself; where it is there, it will do.
missing_emulators() {
	command -v qemu-arm >/dev/null || command -v qemu-arm-static >/dev/null || echo qemu-user
}

missing_tools() {
	case "$tools" in
	quick) wanted=$quick_tools ;;
	test)
		wanted=$test_tools
		missing_server
		;;
	nightly)
		wanted=$nightly_tools
		missing_server
		;;
	dev)
		wanted=$dev_tools
		missing_multilib
		missing_emulators
		missing_server
		;;
	esac
	echo "$wanted" | while read -r tool package; do
		[ -f "$tool" ] || PATH="$PATH:/usr/sbin:/sbin" command -v "$tool" >/dev/null ||
			echo "$package"
	done | sort -u
}

debian_tools() {
	missing=$(missing_tools | xargs)
	[ -n "$missing" ] || return 0
	# shellcheck disable=SC2086
	install_packages $missing || true
	missing=$(missing_tools | xargs)
	[ -z "$missing" ] || fail "tools are missing: $missing" \
		"install these Debian packages and start again"
}

# --- Python packages ---------------------------------------------------------------------------

# Each level has a mark in .venv that holds what it was made from, and is written last.
have_python_packages() {
	wanted=$(stamp_packages)
	for mark in $levels; do
		if [ "$(cat ".venv/rtgauge-$mark" 2>/dev/null)" = "$wanted" ]; then
			.venv/bin/python -c '' 2>/dev/null
			return
		fi
	done
	return 1
}

python_packages() {
	wanted=$(stamp_packages)
	if ! .venv/bin/python -m pip --version >/dev/null 2>&1 || [ -e .venv/rtgauge-unfinished ] ||
		[ "$(cat .venv/rtgauge-place 2>/dev/null)" != "$PWD" ]; then
		say "Python environment: .venv ($("$python" --version))"
		rm -rf .venv
		logged "$python" -m venv .venv || fail "the Python environment could not be made" \
			"see $PWD/$log"
		echo "$PWD" >.venv/rtgauge-place
	fi
	say "Python packages into .venv"
	# of a package that was half installed when all was killed, pip may believe that it is there
	: >.venv/rtgauge-unfinished
	# shellcheck disable=SC2086
	.venv/bin/python tools/requirements.py $extras >.venv/rtgauge-requirements
	logged .venv/bin/python -m pip install --disable-pip-version-check --no-input \
		--progress-bar off --require-hashes --requirement .venv/rtgauge-requirements ||
		fail "the Python packages could not be installed" \
			"check the connection to the package index, then start again; the log is $PWD/$log"
	install_checkout
	rm .venv/rtgauge-unfinished
	echo "$wanted" >".venv/rtgauge-$level"
}

# The command of .venv that runs the sources of this checkout. A change takes effect at once.
install_checkout() {
	echo "$PWD/src" >"$(.venv/bin/python -c \
		'import sysconfig; print(sysconfig.get_path("purelib"))')/rtgauge.pth"
	# A kernel takes no space in the path of an interpreter, nor a long one; a shell does.
	cat >.venv/bin/rtgauge.new <<-EOF
		#!/bin/sh
		'''exec' "$PWD/.venv/bin/python" "\$0" "\$@"
		' '''
		import sys

		from rtgauge.cli import main

		sys.exit(main())
	EOF
	chmod 755 .venv/bin/rtgauge.new
	mv .venv/bin/rtgauge.new .venv/bin/rtgauge
}

# --- The agent ---------------------------------------------------------------------------------

# Built with the system's compiler and C library, which are part of what is evaluated.
agent() {
	export PATH="$PWD/.venv/bin:$PATH"
	if [ ! -e build/native/build.ninja ]; then
		say "the agent, with ${CC:-cc}"
		rm -rf build/native
		logged .venv/bin/meson setup build/native || fail "the agent's build could not be set up" \
			"the log is $PWD/$log"
	elif [ -n "$announced" ] || ! ninja -C build/native -n agent | grep -q 'no work to do'; then
		say "the agent"
	fi
	logged ninja -C build/native agent || fail "the agent could not be built" \
		"mend what the compiler says above"
	mkdir -p src/rtgauge/agents
	for built in build/native/agent/rtgauge-agent-*; do
		[ -f "$built" ] || continue
		kept=src/rtgauge/agents/${built##*/}
		cmp -s "$built" "$kept" || {
			cp "$built" "$kept.new"
			mv "$kept.new" "$kept"
		}
	done
}

# For emulated boards, or for boards of another architecture.
static_programs() {
	case "$architecture" in
	lab) say "static agents for emulated boards" ;;
	*) say "static agent for $architecture" ;;
	esac
	logged .venv/bin/python tools/static_programs.py "$architecture" ||
		fail "the static agents could not be built" "the log is $PWD/$log"
}

# --- In this order -----------------------------------------------------------------------------

(mkdir -p build && : >>build/setup.lock) 2>/dev/null || fail "$PWD cannot be written to" \
	"use a checkout that you may write to, or have its owner run 'make setup' there once"

exec 9>>build/setup.lock
if ! flock -n 9; then
	echo "rtgauge: waiting for another set-up of $PWD to end" >&2
	flock 9
fi
: >"$log"
stamp=$(stamp_all)
if ! have_python_packages; then
	debian_packages
	python_packages
elif ! compiles; then
	debian_packages
fi
[ -z "$tools" ] || debian_tools
case "$tools" in
test | dev | nightly) optional_tools ;;
esac
agent
[ "$level" != lab ] || static_programs
echo "$stamp" >.venv/rtgauge-stamp
[ -z "$announced" ] || say "done in $(($(date +%s) - started)) s"
