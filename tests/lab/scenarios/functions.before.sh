#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Build the program that enables virtual functions; the guest has no nvme-cli.
mkdir -p guest/lab && cp "$BUILD/tests/lab/nvmeadm" guest/lab/nvmeadm
