#!/bin/bash
# What enables virtual functions; the scenario has no nvme-cli.
mkdir -p guest/lab && cp "$BUILD/tests/lab/nvmeadm" guest/lab/nvmeadm
