#!/bin/sh
# stream-app for a container with `restart: on-failure`, which knows no exit codes: a job that ends
# with 2 would fail again in the same way until a person mends the cause, so its container rests.
trap '[ -z "$!" ] || kill -TERM "$!"' TERM INT # before the job begins: it may be asked to end at once
stream-app "$@" &
job=$!
while :; do
  code=0
  wait "$job" || code=$?
  kill -0 "$job" 2>/dev/null || break # else a signal has interrupted the waiting, not the job
done
if [ "$code" -eq 2 ] && [ "$1" = ingest ]; then
  echo "exit code 2: see above what to mend; not started again until then" >&2
  exit 0
fi
exit "$code"
