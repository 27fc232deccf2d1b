#!/bin/sh
# Removes its spec when it is done, as the contract of the plan dialect says: tidy.sh BATCH_DIRECTORY KEY
cd "$1" || exit 1
until [ -s "task-$2.json" ]; do sleep 0.05; done
echo '{"progress": "reading the spec"}' > "task-$2.hb"
rm "task-$2.json"
sleep 0.3
echo "{\"task_id\": \"$2\", \"status\": \"success\", \"output\": {}}" > "task-$2.result.json"
