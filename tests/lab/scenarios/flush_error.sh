# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# The first flush fails: its data are not reported as durable, and the next attempt works.
#: run machine=fault_flush boot=intel_iommu=off

ssd=pci:$nv0
hugepages 32
check "format without its flush fails" exits 4 headrace store format "$ssd"
check "the error of format names the flush" warns "flush"
check "the error of format names the status" warns "Write Fault (280)"
check "format again" exits 0 headrace store format --force "$ssd"
check "put an object" exits 0 headrace store put "$ssd" init /init
check "verify" exits 0 headrace store verify "$ssd"
