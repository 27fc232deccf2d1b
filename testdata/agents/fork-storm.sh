#!/bin/sh
# An agent whose processes are never where one looked: fork-storm.sh DIRECTORY [LINKS_LEFT]
# Three chains in which each link starts the next and ends, and a crowd that grows as fast as it can.
# Ends by itself: when DIRECTORY is gone, or after some thousand forks.
link() {
    [ -d "$1" ] && [ "$2" -gt 0 ] || exit 0
    # A new shell now and then: each link is a call deeper than the one before.
    [ $(($2 % 100)) -ne 0 ] || exec "$0" "$1" $(($2 - 1))
    link "$1" $(($2 - 1)) &
    exit 0
}
[ $# -lt 2 ] || link "$1" "$2"
for chain in 1 2; do "$0" "$1" 9999 & done
setsid "$0" "$1" 9999 &
echo $$ > "$1/storm"
crowd=0
while [ -d "$1" ] && [ $crowd -lt 2000 ]; do
    sleep 20 &
    crowd=$((crowd + 1))
done
wait
