#!/bin/sh
# Ends well, and leaves two processes behind: one that ends when it is asked, and one that does not.
sleep 300 > /dev/null 2>&1 &
(trap '' TERM; setsid sleep 301 > /dev/null 2>&1 &)
echo "done"
