# SPDX-License-Identifier: Apache-2.0
"""Record the options of every run as the agent describes them, for the fake target.

    .venv/bin/python tools/run_options.py

Needed after a change to ``catalogue_run_options`` in agent/catalogue.c; a test compares the two.
"""

import json
from pathlib import Path

import rtgauge.target
from rtgauge.target.local import LocalTarget

RECORDED = Path(rtgauge.target.__file__).with_name("run_options.json")

if __name__ == "__main__":
    described = json.loads(LocalTarget().describe())["run_options"]
    lines = [json.dumps(option, ensure_ascii=False) for option in described]
    RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
