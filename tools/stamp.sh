# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by ./rtgauge and tools/setup.sh with the checkout as the current folder: what the set-up
# was made from, in a few milliseconds. A checkout that was moved, or whose agent or list of
# packages changed, has another stamp than the one in .venv.

# What .venv was made from: where it is (scripts in it hold that path) and which packages.
stamp_packages() {
	{ pwd -P && cat pyproject.toml tools/requirements.lock tools/setup.sh; } | cksum
}

# And what the agent was built from.
stamp_all() {
	{ pwd -P && cat pyproject.toml tools/requirements.lock tools/setup.sh meson.build meson.options \
		agent/meson.build src/rtgauge/__init__.py agent/*.[ch] \
		agent/*/*.[ch] agent/*/*/*.[ch]; } 2>/dev/null | cksum
}
