#!/usr/bin/env bash
# A tour with the published command line tool, checking what it prints:
#   tests/interop/cli.sh path/to/iggy HOST:PORT
# The server must be empty. Every command is a process of its own: connect, log in, do, log out. After a
# failure the tour goes on, so that one run shows all that differs.
set -uo pipefail

IGGY=$1 ADDRESS=$2
home=$(mktemp -d "${TMPDIR:-/tmp}/galgo-cli.XXXXXX")
trap 'rm -rf "$home"' EXIT
export IGGY_HOME=$home IGGY_USERNAME=iggy IGGY_PASSWORD=iggy COLUMNS=200
unset DBUS_SESSION_BUS_ADDRESS
passed=0 failed=0

iggy() { timeout 30 "$IGGY" --tcp-server-address "$ADDRESS" --tcp-reconnection-max-retries 1 "$@" </dev/null 2>&1; }

verdict() { # ok? WHAT OUTPUT
  if [ "$1" = yes ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n%s\n\n' "$2" "$3"
  fi
}

# expect PATTERN ARGUMENT... : the command succeeds and a line of its output matches.
expect() {
  local pattern=$1 output rc ok=no
  shift
  output=$(iggy "$@")
  rc=$?
  if [ $rc = 0 ] && grep -Eq -- "$pattern" <<<"$output"; then ok=yes; fi
  verdict $ok "iggy $* (status $rc), expected: $pattern" "$output"
}

# refuse PATTERN ARGUMENT... : the command fails with status 1 and says why.
refuse() {
  local pattern=$1 output rc ok=no
  shift
  output=$(iggy "$@")
  rc=$?
  if [ $rc = 1 ] && grep -Eq -- "$pattern" <<<"$output"; then ok=yes; fi
  verdict $ok "iggy $* (status $rc, expected 1), expected: $pattern" "$output"
}

# cell TEXT : a table cell, or the field of a list line, with exactly this text.
cell() { printf '[|│┆] *%s *([|│┆]|$)' "$1"; }

expect 'Ping sequence id: *1 time: [0-9.]+ ms' ping --count 1
expect "$(cell tcp)|TCP" me

expect 'No streams found!' stream list
expect 'Stream with ID: shop was not found' stream get shop
expect 'Stream with name: shop and ID auto incremented created' stream create shop
refuse 'already exists' stream create shop
expect '^0\|.*\|shop\|.*\|0\|0$' stream list --list-mode list
expect "$(cell shop)" stream get shop
expect 'Stream with ID: shop updated name: store' stream update shop store
refuse 'Problem|not found' stream delete shop

expect 'Topic with name: orders' topic create store orders 2 none
refuse 'already exists' topic create store orders 1 none
expect 'Topic with name: ledger' topic create --durability persisted --max-topic-size 10GiB store ledger 1 none 1day
expect "$(cell orders)" topic list store
expect "$(cell ledger)" topic list store
expect 'Partitions count *[|│┆] *2 ' topic get store orders
expect 'Message expiry *[|│┆] *1day' topic get store ledger
expect 'Created 2 partitions for topic with ID: orders' partition create store orders 2
expect 'Partitions count *[|│┆] *4 ' topic get store orders
expect 'Deleted 1 partition for topic with ID: orders' partition delete store orders 1
expect 'Partitions count *[|│┆] *3 ' topic get store orders

expect 'Sent messages to topic with ID: orders' message send --partition-id 0 store orders one two three
expect 'Sent messages to topic with ID: orders' message send --partition-id 0 --headers color:string:red store orders four
expect 'Sent messages to topic with ID: orders' message send --message-key k store orders keyed
expect 'Sent messages to topic with ID: orders' message send store orders balanced
expect 'Topic message count *[|│┆] *6 ' topic get store orders
for strategy in --first --next '--offset 0'; do
  # shellcheck disable=SC2086  # an option and its value
  expect "^[|│┆] *0 .*$(cell one)" message poll $strategy --message-count 1 store orders 0
done
expect "$(cell two)" message poll --offset 1 --message-count 2 store orders 0
expect "$(cell three)" message poll --offset 1 --message-count 2 store orders 0
expect 'Polled 2 messages of total size' message poll --last --message-count 2 store orders 0
expect "$(cell red)" message poll --offset 3 --message-count 1 --show-headers store orders 0

expect 'Consumer group: ID auto incremented, name: pickers created' consumer-group create store orders pickers
refuse 'already exists' consumer-group create store orders pickers
expect "$(cell pickers)" consumer-group list store orders
expect 'Consumer group name *[|│┆] *pickers' consumer-group get store orders pickers
expect 'Consumer offset for consumer with ID: 7 .*set to 2' consumer-offset set 7 store orders 0 2
expect 'Stored offset *[|│┆] *2 ' consumer-offset get 7 store orders 0
expect "$(cell four)" message poll --next --consumer 7 --message-count 1 store orders 0
expect 'Consumer group with ID: pickers deleted' consumer-group delete store orders pickers
expect 'Consumer group with ID: pickers was not found' consumer-group get store orders pickers

# as USER PASSWORD expect|refuse PATTERN ARGUMENT...
as() { IGGY_USERNAME=$1 IGGY_PASSWORD=$2 "${@:3}"; }

expect "$(cell iggy)" user list
expect 'User with username: alice created' user create -s '0:r_str' alice secret1
refuse 'already exists' user create alice secret2
refuse 'Problem' user create --user-status inactive ab secret1
expect "$(cell alice)" user list
expect "$(cell alice)" user get alice
expect 'User with ID: nobody was not found' user get nobody
as alice secret1 expect "$(cell store)" stream get store
as alice secret1 expect "$(cell alice)" user get alice
as alice secret1 refuse 'nauthorized|Problem' user list
as alice secret1 refuse 'nauthorized|Problem' stream create hers
as alice secret1 refuse 'nauthorized|Problem' message send --partition-id 0 store orders no
expect 'Permissions for user with ID: alice updated' user permissions -g m_str alice
as alice secret1 expect 'Stream with name: hers' stream create hers
as alice secret1 expect 'Stream with ID: hers deleted' stream delete hers
as alice secret1 expect 'Password for user with ID: alice changed' user password alice secret1 secret2
as alice secret2 refuse 'Problem|redential' user password alice secret1 secret3
as alice secret1 refuse 'Problem with server login' stream list
as alice secret2 expect "$(cell store)" stream list
expect 'User with ID: alice updated with username: bob' user name alice bob
expect 'updated with status: inactive' user status bob inactive
as bob secret2 refuse 'Problem with server login' stream list
expect 'updated with status: active' user status bob active

expect 'Token Expiry Time' pat list
output=$(iggy --quiet pat create robot 1day)
token=$(tail -n 1 <<<"$output")
verdict "$([ ${#token} -ge 32 ] && echo yes || echo no)" 'pat create prints a token' "$output"
refuse 'already exists' pat create robot
expect "$(cell robot)" pat list
expect "$(cell store)" --token "$token" stream list
# The tool deletes the token, then looks for it in the keyring of the desktop: without one it fails.
output=$(iggy pat delete robot)
verdict "$(grep -Eq 'Personal access token with name: robot deleted|No default store has been set' <<<"$output" &&
  echo yes)" 'iggy pat delete robot' "$output"
refuse 'Problem with server login' --token "$token" stream list
verdict "$(iggy pat list | grep -Eq "$(cell robot)" || echo yes)" 'a deleted token is not listed' robot
refuse 'Problem deleting' pat delete robot
expect 'User with ID: bob deleted' user delete bob
as bob secret2 refuse 'Problem with server login' stream list
refuse 'Problem deleting user' user delete iggy

expect 'Streams Count *[|│┆] *1 ' stats
expect '"streams_count": *1' stats --output json
expect 'iggy|Cluster name' cluster metadata
expect "$(cell durability)" options topic

expect 'Topic with ID: orders .*purged' topic purge store orders
expect 'Topic message count *[|│┆] *0 ' topic get store orders
expect 'Polled 0 messages' message poll --first --message-count 5 store orders 0
expect 'Topic with ID: ledger .*deleted' topic delete store ledger
expect 'Stream with ID: store purged' stream purge store
expect 'Stream with ID: store deleted' stream delete store
expect 'No streams found!' stream list
IGGY_PASSWORD=wrong refuse 'Problem with server login for username: iggy' stream list

printf 'cli: %d passed, %d failed\n' $passed $failed
[ $failed = 0 ]
