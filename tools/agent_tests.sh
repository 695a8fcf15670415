#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build the agent and its tests in FOLDER and, without --build, run the tests:
#
#   agent_tests.sh [--build] FOLDER COMPILER [MESON_OPTION...]
#
# A folder that was set up with other words is set up again from the start.
set -eu
test=yes
if [ "$1" = --build ]; then
	test=
	shift
fi
folder=$1 compiler=$2 asked="$*"
shift 2
if [ "$(cat "$folder/asked-for" 2>/dev/null)" != "$asked" ]; then
	rm -rf "$folder"
	CC="$compiler" meson setup "$folder" "$@"
	echo "$asked" >"$folder/asked-for"
fi
ninja -C "$folder"
[ -n "$test" ] || exit 0
set -- --no-rebuild --print-errorlogs --timeout-multiplier 4
case "$asked" in
*b_sanitize=thread*)
	# Some kernels spread addresses more widely than the run-time of TSan supports. A program then
	# ends at its start, unless its addresses are not randomized.
	echo 'int main(void) { return 0; }' | $compiler -fsanitize=thread -x c - -o "$folder/trial"
	"$folder/trial" || set -- "$@" --wrapper "setarch -R"
	;;
esac
exec meson test -C "$folder" "$@"
