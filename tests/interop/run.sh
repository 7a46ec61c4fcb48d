#!/usr/bin/env bash
# The published clients against the real server binary: black box, on loopback, nothing mocked.
#   tests/interop/run.sh [python|cli|rust]...     default: all three, in this order
# GALGO_SERVER          the binary; default build/dev/bin/galgo-server
# GALGO_SERVER_ADDRESS  host:port of a server that runs already (user iggy, password iggy): starts none
# Each client gets a server of its own on free ports, with an empty data folder. A server that does not
# stop within 30 s of SIGTERM, or stops with an error, fails the run: sanitizer reports come out there.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/clients.sh"
cd "$INTEROP_ROOT"

SERVER=$(realpath -m "${GALGO_SERVER:-build/dev/bin/galgo-server}")
work='' server_pid='' address=''

cleanup() {
  if [ -n "$server_pid" ]; then kill -KILL "$server_pid" 2>/dev/null || true; fi
  if [ -n "$work" ]; then rm -rf "$work"; fi
}
trap cleanup EXIT

show_server_log() {
  echo "---- last lines of the server"
  tail -n 40 "$work/server.log"
  echo "----"
}

# The bound address, from the file which the server writes once its listeners accept.
bound_address() {
  awk -F'"' '/^\[/ { section = $0 } section == "[tcp]" && /^address *=/ { print $2 }' \
    "$work/data/runtime/current_config.toml" 2>/dev/null || true
}

start_server() {
  if [ -n "${GALGO_SERVER_ADDRESS:-}" ]; then address=$GALGO_SERVER_ADDRESS; return; fi
  [ -x "$SERVER" ] || interop_die "no server at $SERVER. Run: ./x build"
  work=$(mktemp -d "${TMPDIR:-/tmp}/galgo-interop.XXXXXX")
  (
    cd "$work"
    unset IGGY_ROOT_USERNAME IGGY_ROOT_PASSWORD IGGY_CONFIG_PATH
    export IGGY_SYSTEM_PATH=$work/data IGGY_TCP_ADDRESS=127.0.0.1:0 IGGY_HTTP_ADDRESS=127.0.0.1:0 \
      IGGY_QUIC_ADDRESS=127.0.0.1:0 IGGY_WEBSOCKET_ADDRESS=127.0.0.1:0
    exec "$SERVER" --with-default-root-credentials </dev/null >server.log 2>&1
  ) &
  server_pid=$!
  local deadline=$((SECONDS + 30))
  address=$(bound_address)
  until [ -n "$address" ]; do
    if ! kill -0 "$server_pid" 2>/dev/null; then show_server_log; interop_die "the server ended at start"; fi
    if [ $SECONDS -ge $deadline ]; then show_server_log; interop_die "the server does not listen after 30 s"; fi
    sleep 0.05
    address=$(bound_address)
  done
}

stop_server() {
  [ -n "$server_pid" ] || return 0
  local deadline=$((SECONDS + 30)) rc=0
  kill -TERM "$server_pid" 2>/dev/null || true
  while kill -0 "$server_pid" 2>/dev/null; do
    if [ $SECONDS -ge $deadline ]; then show_server_log; interop_die "the server does not stop after 30 s"; fi
    sleep 0.05
  done
  wait "$server_pid" || rc=$?
  server_pid=
  if [ $rc != 0 ]; then show_server_log; interop_die "the server stopped with status $rc"; fi
  rm -rf "$work"
  work=
}

run_client() { # bounded in time as a whole; each test has a bound of its own
  case $1 in
    python)
      GALGO_ADDRESS=$address PYTHONDONTWRITEBYTECODE=1 timeout 300 \
        "$INTEROP_CACHE/venv/bin/python" -m pytest -q -p no:cacheprovider tests/interop/python
      ;;
    rust) timeout 300 "$INTEROP_CACHE/rust/debug/galgo-interop" "$address" ;;
    cli) timeout 300 tests/interop/cli.sh "$INTEROP_CACHE/cli/bin/iggy" "$address" ;;
  esac </dev/null
}

failed=()
if [ $# = 0 ]; then set -- python cli rust; fi
for client in "$@"; do
  case $client in python | rust | cli) ;; *) interop_die "no client '$client': python, rust, cli" ;; esac
done
for client in "$@"; do
  "${client}_client"
  start_server
  echo "interop: $client, server at $address"
  if ! run_client "$client"; then
    failed+=("$client")
    if [ -n "$work" ]; then show_server_log; fi
  fi
  stop_server
done
[ ${#failed[@]} = 0 ] || interop_die "failed: ${failed[*]}. Again: tests/interop/run.sh ${failed[*]}"
