#!/bin/sh
# A tree that does not want to end: a child, a child in a session of its own, and a daemon. All ignore TERM and HUP.
trap '' TERM HUP
sleep 300 &
setsid sleep 301 &
(setsid sh -c 'sleep 302 & sleep 303' &)
echo "ready"
while :; do sleep 1; done
