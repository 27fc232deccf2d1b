#!/bin/sh
# The agent of the demonstration: says what it does, writes a file, delivers. Whatever it prints is in its log, and
# its last line is its progress. Phase 3b fails at its first try, phase 3c at every one.
for step in 1 2 3; do
    echo "Step $step of 3"
    sleep 0.25
done
case $WK_TASK:$WK_ATTEMPT in
3b:1) echo "the port was taken" >&2; exit 1 ;;
3c:*) echo "the provider does not answer" >&2; exit 1 ;;
esac
mkdir -p out && echo "phase $WK_TASK" > "out/$WK_TASK.txt"
wk agent done --created "out/$WK_TASK.txt" --tokens 1200
