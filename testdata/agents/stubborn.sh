#!/bin/sh
# Sends a wrong result, reads why it was refused, and sends a right one: stubborn.sh BATCH_DIRECTORY KEY
cd "$1" || exit 1
until [ -s "task-$2.json" ]; do sleep 0.05; done
echo "{\"task_id\": \"$2\", \"state\": \"success\"}" > "task-$2.result.json"
until [ -s "task-$2.result.error.json" ]; do echo "{\"n\": $(date +%N | sed 's/^0*/1/')}" > "task-$2.hb"; sleep 0.05; done
echo "{\"task_id\": \"$2\", \"status\": \"success\", \"output\": {}}" > "task-$2.result.json"
