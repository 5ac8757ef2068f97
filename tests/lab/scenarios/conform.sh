# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# The NVMe conformance tests, written against the software controller, also pass with QEMU's
# controller, driven by physical addresses and through VFIO. Where QEMU 7.2 violates the
# specification a test fails. The list below has exactly these tests: any difference is a failure.
#: run pci machine=ports memory=768 cpus=2
#: run vfio machine=ports_iommu boot=intel_iommu=on memory=768 cpus=2
#: tests nvme/soft/conformance_registers nvme/soft/conformance_admin nvme/soft/conformance_io nvme/soft/conformance_queues
#: restores
#: limit 150

cat >/tmp/known <<'EOT'
conformance_admin::a_feature_keeps_its_value_until_a_reset
conformance_admin::the_firmware_slot_holds_what_identify_names
conformance_queues::queues_are_deleted_in_the_specified_order_only
EOT
# The first: Asynchronous Event Configuration survives a reset (Base 5.27: values return to default).
# The second: the log names firmware "1.0", Identify the version of QEMU (Base 5.16.1.4).
# The third: deleting a completion queue that does not exist gives 100h, not 101h (Base 5.6).

# suite NAME: its tests pass, except those known to fail
suite() {
    "conformance_$1" >/tmp/log 2>&1
    cat /tmp/log
    grep -q '^\[====\] Synthesis: Tested: [1-9]' /tmp/log || return 1
    sed -n 's/^\[FAIL\] \([^:]*::[^:]*\):.*/\1/p' /tmp/log | sort >/tmp/failed
    grep "^conformance_$1::" /tmp/known | diff - /tmp/failed
}

hugepages 16
export HEADRACE_CONFORM_DEVICE="$INSTANCE:$nv0"
if [ "$INSTANCE" = vfio ]; then
    modprobe -a vfio-pci vfio_iommu_type1
    bind "$nv0" vfio-pci
fi

for name in registers admin io queues; do
    check "$name" suite $name
    check "$name: nothing is skipped" sh -c "! grep -F '[SKIP]' /tmp/log"
done
as_new nv0
