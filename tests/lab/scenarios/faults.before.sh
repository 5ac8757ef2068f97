#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Objects whose size puts the bad sectors where faults.sh needs them.
mkdir -p guest/data
head -c 18000000 /dev/urandom >guest/data/first
head -c 5000000 /dev/urandom >guest/data/second
head -c 20000000 /dev/urandom >guest/data/third
