#!/usr/bin/env bash
# The part of `./x bench` behind the build: starts the servers on free loopback ports with data in a
# temporary folder, runs `galgo-bench compare` on them, stops them by their pids. See usage below.
set -euo pipefail

BIN=build/release/bin

usage() {
  cat <<'TEXT'
usage: ./x bench [options of galgo-bench compare]

Builds release, starts the server and measures, in this order: the bare machine (limits), produce of
1 GB in batches of 1000 x 1000 bytes, consume of it, single messages of 256 bytes. Prints a row each
and how they stand to the limits. With --rounds 5 also the medians; --json prints lines of JSON;
--help-all shows what galgo-bench knows. Servers keep running for the whole measurement.

environment
  SUT_SERVER=/path/to/server   another server of the protocol, measured in turns with ours. It is
                               started in a folder of its own with the same settings (IGGY_*), and
                               neither server is sent topic options then
  SUT_ARGS="..."               its arguments (default: --with-default-root-credentials)
  TMPDIR=/tmp                  where the data folders are made (about 2 GB for a moment)
  KEEP=1                       keep the folders, with the servers' output in server.log

examples
  ./x bench --rounds 5
  ./x bench --durability persisted --total-bytes 200M
  SUT_SERVER=/opt/other/server ./x bench --rounds 5
TEXT
}

work=$(mktemp -d "${TMPDIR:-/tmp}/galgo-bench.XXXXXX")
pids=()
cleanup() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  if [ -n "${KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# The bound address, from the file which a server writes once its listeners accept.
bound_address() {
  awk -F'"' '/^\[/ { section = $0 } section == "[tcp]" && /^address *=/ { print $2 }' \
    "$1/data/runtime/current_config.toml" 2>/dev/null || true
}

start() { # NAME PROGRAM ARGS...: sets `address`
  local folder=$work/$1 program deadline=$((SECONDS + 30))
  program=$(readlink -f "$2")
  mkdir -p "$folder"
  (
    cd "$folder"
    unset IGGY_ROOT_USERNAME IGGY_ROOT_PASSWORD IGGY_CONFIG_PATH
    export IGGY_SYSTEM_PATH=$folder/data IGGY_TCP_ADDRESS=127.0.0.1:0 IGGY_HTTP_ADDRESS=127.0.0.1:0 \
      IGGY_QUIC_ADDRESS=127.0.0.1:0 IGGY_WEBSOCKET_ADDRESS=127.0.0.1:0
    exec "$program" "${@:3}" </dev/null >server.log 2>&1
  ) &
  pids+=($!)
  address=
  until [ -n "$address" ]; do
    if ! kill -0 "${pids[-1]}" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
      tail -20 "$folder/server.log" >&2
      echo "bench: $2 does not listen" >&2
      exit 1
    fi
    sleep 0.05
    address=$(bound_address "$folder")
  done
}

case " $* " in
  *" --help "* | *" -h "*) usage; exit 0 ;;
  *" --help-all "*) "$BIN/galgo-bench" compare --help; exit 0 ;;
esac
start galgo "$BIN/galgo-server" --with-default-root-credentials
servers=(--server "$address")
options=()
echo "galgo: $address, pid ${pids[-1]}, $(git describe --always --dirty 2>/dev/null || echo unknown)" >&2
if [ -n "${SUT_SERVER:-}" ]; then
  read -ra sut_args <<<"${SUT_ARGS---with-default-root-credentials}"
  start sut "$SUT_SERVER" "${sut_args[@]}"
  servers+=(--server "$address")
  options+=(--no-topic-options)
  echo "sut:   $address, pid ${pids[-1]}, $SUT_SERVER" >&2
fi
echo "machine: $(nproc) CPUs, load $(cut -d' ' -f1-3 /proc/loadavg), data in $work" >&2
"$BIN/galgo-bench" compare "${servers[@]}" "${options[@]}" --folder "$work" "$@"
