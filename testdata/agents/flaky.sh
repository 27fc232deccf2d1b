#!/bin/sh
# Fails at its first attempt and succeeds at its second: flaky.sh BATCH_DIRECTORY KEY
cd "$1" || exit 1
for attempt in 1 2; do
    until grep -qs "\"attempt\": $attempt" "task-$2.json"; do sleep 0.05; done
    echo '{"progress": "trying"}' > "task-$2.hb"
    [ "$attempt" = 1 ] && status=failed || status=success
    echo "{\"task_id\": \"$2\", \"status\": \"$status\", \"output\": {}, \"errors\": [\"try $attempt\"], \"attempt\": $attempt}" > "task-$2.result.json"
done
