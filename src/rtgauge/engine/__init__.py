# SPDX-License-Identifier: Apache-2.0
"""Carrying out a plan: steps one after another, pairs of machines, what is seen live."""
