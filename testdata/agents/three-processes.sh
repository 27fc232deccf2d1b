#!/bin/sh
# An agent that leaves three behind: three-processes.sh DIRECTORY
# A child; a child in a session of its own; a daemon, forked twice, that is deaf to HUP and TERM.
# Each says its pid in DIRECTORY/NAME. Nobody outlives five minutes.
cd "$1" || exit 1
sh -c 'echo $$ > child; exec sleep 300' &
setsid sh -c 'echo $$ > session; exec sleep 300' &
( ( setsid sh -c 'trap "" HUP TERM; echo $$ > daemon; exec sleep 300' & ) & )
exec sleep 300
