#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Install packages of rtgauge in a fresh Debian, evaluate this machine there, and keep the report:
#
#   tools/try_packages.sh SUITE PACKAGE RESULTS
#
# SUITE: bookworm, trixie, ... PACKAGE: a wheel (installed by pipx) or a Debian package (by apt).
# RESULTS: the folder for log and reports. Needs root, debootstrap, and a package index.
#
# Writes times and sizes to stdout. Everything is mounted in a namespace of its own and ends with
# this script; the Debian is removed then.
#
# shellcheck disable=SC2016 # what a shell in that Debian expands
set -eu

usage() {
	echo "usage: tools/try_packages.sh SUITE PACKAGE.whl|PACKAGE.deb RESULTS" >&2
	exit 2
}

[ $# = 3 ] || usage
suite=$1
package=$(readlink -f -- "$2")
results=$(readlink -m -- "$3")
case "$package" in
*.whl | *.deb) [ -f "$package" ] || usage ;;
*) usage ;;
esac

if [ -z "${RTGAUGE_TRY_ROOT-}" ]; then
	[ "$(id -u)" = 0 ] || {
		echo "try_packages.sh: only root may make a Debian and change into it. Use sudo" >&2
		exit 1
	}
	command -v debootstrap >/dev/null || {
		echo "try_packages.sh: debootstrap is missing. Install the package debootstrap" >&2
		exit 1
	}
	RTGAUGE_TRY_ROOT=$(mktemp -d "${TMPDIR:-/var/tmp}/rtgauge-try-XXXXXX")
	export RTGAUGE_TRY_ROOT
	trap 'rm -rf --one-file-system "$RTGAUGE_TRY_ROOT"' EXIT
	trap 'exit 130' INT TERM
	mkdir -p "$results"
	# what is mounted and what is started there ends with it
	unshare --mount --pid --fork --kill-child timeout 1500 "$0" "$suite" "$package" "$results"
	exit
fi

root=$RTGAUGE_TRY_ROOT
log=$results/log
: >"$log"

# timed WHAT COMMAND...
timed() {
	what=$1
	shift
	begin=$(date +%s.%N)
	echo "+ $*" >>"$log"
	"$@" >>"$log" 2>&1 </dev/null || {
		status=$?
		tail -n 30 "$log" >&2
		echo "$suite: $what: exit $status; the log is $log" >&2
		return "$status"
	}
	echo "$begin $(date +%s.%N)" | LC_ALL=C awk -v what="$suite: $what" \
		'{ printf "%s: %.0f s\n", what, $2 - $1 }'
}

home=/srv
inside() {
	chroot "$root" env -i HOME="$home" LANG=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive \
		PATH="$home/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$@"
}

# size WHAT PATH...
size() {
	what=$1
	shift
	echo "$suite: $what: $(inside du -scm "$@" | tail -n 1 | cut -f1) MiB"
}

timed debootstrap debootstrap --variant=minbase --include=ca-certificates "$suite" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
# the authorities that this machine trusts, and no service is started
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
cp /etc/resolv.conf "$root/etc/resolv.conf"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mkdir -p "$root$home/work"
cp "$package" "$root$home/work/"
name=$home/work/${package##*/}

case "$package" in
*.whl)
	timed "apt-get install pipx" inside apt-get -q -y --no-install-recommends install pipx
	inside sh -c '! command -v cc && ! command -v gcc' >>"$log"
	timed "pipx install" inside pipx install "$name"
	environment=$(inside sh -c 'dirname "$(dirname "$(readlink -f ~/.local/bin/rtgauge)")"')
	size "installed" "$environment" "${environment%/venvs/*}/shared"
	;;
*.deb)
	timed "apt-get install" inside apt-get -q -y --no-install-recommends install "$name"
	environment=/usr/lib/rtgauge
	size "installed" "$environment"
	;;
esac
inside du -sk "$environment" >>"$log"
inside sh -c "cd '$environment'/lib/python3*/site-packages && du -sk * | sort -rn | head -n 25" \
	>>"$log"
inside rtgauge --version

# 0: fit, or no budget; 77: it could not be measured properly, as in a container
cd "$results"
timed "rtgauge evaluate" inside sh -c \
	'cd ~/work && { rtgauge evaluate --for 1s || { status=$?; [ $status = 77 ]; }; }'
timed "its HTML and Markdown again" inside sh -c \
	'cd ~/work && rtgauge report last -o again.html && rtgauge report last -o again.md'
cp "$root$home"/work/*.html "$root$home"/work/*.md "$results"
cp "$root$home"/work/*.pdf "$results" 2>/dev/null || echo "$suite: no PDF"
for page in "$results"/rtgauge-report-*.html; do
	grep -q '<html' "$page"
	echo "$suite: ${page##*/}: $(($(wc -c <"$page") / 1024)) KiB"
done
