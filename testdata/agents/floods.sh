#!/bin/sh
# Prints without end.
exec yes "a line of output that means nothing, again and again, until somebody stops it"
