#!/bin/sh
# Writes its result in place, word by word, with the file open: torn.sh BATCH_DIRECTORY KEY
cd "$1" || exit 1
until [ -s "task-$2.json" ]; do sleep 0.05; done
{
    printf '{"task_id": "%s", ' "$2"; sleep 0.4
    printf '"status": "success", '; sleep 0.4
    printf '"output": {}}'
} > "task-$2.result.json"
