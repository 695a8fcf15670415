# SPDX-License-Identifier: Apache-2.0
"""``python -m rtgauge`` is the command ``rtgauge``."""

import sys

from rtgauge.cli.main import main

sys.exit(main())
