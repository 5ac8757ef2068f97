# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The lab itself: its time limit ends a guest that runs for ever, although the guest's disk still
# waits for power cuts; the guest's notes are recorded as for other guests.
#: run machine=powerfail
#: cuts nv0 1000000
#: limit 4
#: lost time limit

note hanging
while :; do sleep 60; done
