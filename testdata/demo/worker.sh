#!/bin/sh
# An agent of the demonstration: takes a task, beats, writes a file, delivers. It needs nothing but sh and wk.
# Phase 3b fails at its first try, phase 3c at every one.
while task=$(wk agent next --by "$1" --wait 3 2>/dev/null); do
    key=${task#*/} key=${key%#*} attempt=${task##*#}
    for step in 1 2 3; do
        wk agent beat "$task" --progress "Step $step of 3" && sleep 0.3
    done
    case $key:$attempt in
    3b:1) wk agent done "$task" --status failed --error "the port was taken" ;;
    3c:*) wk agent done "$task" --status failed --error "the provider does not answer" ;;
    *)    mkdir -p out && echo "phase $key" > "out/$key.txt"
          wk agent done "$task" --created "out/$key.txt" --tokens 1200 ;;
    esac
done
