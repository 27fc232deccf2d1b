#!/bin/sh
# One task of the crash test for agents that are started: proves by a lock that no two processes of a task are ever
# alive at once, and behaves as its argument says.
mkdir -p "$WK_ROOT/alive"
exec 9>"$WK_ROOT/alive/$WK_TASK"
flock -n 9 || echo "OVERLAP $WK_TASK $WK_ATTEMPT" >>"$WK_ROOT/told"
echo "start $WK_TASK $WK_ATTEMPT" >>"$WK_ROOT/told"
case $1 in
quick) ;;
slow) sleep 0.4 ;;
flaky) [ "$WK_ATTEMPT" -gt 1 ] || exit 3 ;;
child) (trap '' TERM; sleep 30) & sleep 0.1 ;;
daemon) setsid sleep 30 & sleep 0.1 ;;
result)
    echo "made" >"made-$WK_TASK.txt"
    printf '{"task_id":"%s","attempt":%s,"status":"success","output":{"files_created":["made-%s.txt"]}}' \
        "$WK_TASK_ID" "$WK_ATTEMPT" "$WK_TASK" >"$WK_RESULT.tmp"
    mv "$WK_RESULT.tmp" "$WK_RESULT"
    sleep 0.1
    ;;
esac
echo "end $WK_TASK $WK_ATTEMPT" >>"$WK_ROOT/told"
