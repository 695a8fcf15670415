# SPDX-License-Identifier: Apache-2.0
"""The document: what every report shows, in one tree of blocks, whatever its format."""
