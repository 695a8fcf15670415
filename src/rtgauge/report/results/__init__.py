# SPDX-License-Identifier: Apache-2.0
"""The results model: what a run says, without any picture or page."""
