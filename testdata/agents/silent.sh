#!/bin/sh
# Beats once and is never heard of again: silent.sh BATCH_DIRECTORY KEY
cd "$1" || exit 1
until [ -s "task-$2.json" ]; do sleep 0.05; done
echo '{"progress": "about to fall asleep"}' > "task-$2.hb"
