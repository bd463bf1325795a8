#!/bin/sh
# Makes Holdfast's namespace where it is missing. One that is there stays as it is: its retention may have been changed.
# Takes TEMPORAL_ADDRESS (host:port), TEMPORAL_NAMESPACE and RETENTION (30d).
set -eu

# The CLI's resolver waits for SRV and TXT records too, which Docker's own DNS may leave unanswered until the call times
# out. An address needs no resolver.
host=${TEMPORAL_ADDRESS%:*}
ip=$(getent ahosts "$host" 2>/dev/null | awk '$2 == "STREAM" { print $1; exit }') || ip=
TEMPORAL_ADDRESS="${ip:-$host}:${TEMPORAL_ADDRESS##*:}"
export TEMPORAL_ADDRESS

# The port is open before the server serves.
attempt=1
until temporal operator cluster health; do
  [ "$attempt" -lt 30 ] || exit 1
  attempt=$((attempt + 1))
  sleep 2
done

temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
