#!/bin/sh
# An agent in ten lines: succeeds.sh BATCH_DIRECTORY KEY
cd "$1" || exit 1
until [ -s "task-$2.json" ]; do sleep 0.05; done
for step in 1 2 3; do
    echo "{\"status\": \"in_progress\", \"progress\": \"Step $step of 3\"}" > "task-$2.hb"
    sleep 0.1
done
echo "{\"task_id\": \"$2\", \"status\": \"success\", \"output\": {}}" > "task-$2.result.json"
