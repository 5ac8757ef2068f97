# shellcheck shell=dash disable=SC2154
# The first flush fails: what it was to make durable is not reported as done, and the next attempt works.
#: run machine=fault_flush boot=intel_iommu=off

ssd=pci:$nv0
hugepages 32
check "format without its flush fails" exits 4 headrace store format "$ssd"
check "it names the flush and the status" warns "flush"
check "the status is there" warns "Write Fault (280)"
check "format again" exits 0 headrace store format --force "$ssd"
check "an object" exits 0 headrace store put "$ssd" init /init
check "verify" exits 0 headrace store verify "$ssd"
