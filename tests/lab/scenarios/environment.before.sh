#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The program that starts others with fewer rights.
mkdir -p guest/lab && cp "$BUILD/tests/lab/withhold" guest/lab/withhold
