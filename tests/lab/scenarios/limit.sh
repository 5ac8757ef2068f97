# shellcheck shell=dash
# The lab itself: a guest that does not end is ended by its time limit, though its disk, at which power
# cuts are waiting, would serve it for ever; what it was promised is written down like that of others.
#: run machine=powerfail
#: cuts nv0 1000000
#: limit 4
#: lost time limit

note hanging
while :; do sleep 60; done
