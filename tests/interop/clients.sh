# The published clients, each made once and kept in $INTEROP_CACHE, across clones. To be sourced, from anywhere.
#   python_client   venv with apache-iggy and pytest
#   rust_client     the test program of tests/interop/rust
#   cli_client      the `iggy` command line tool
#   xxhash_venv     venv with xxhash, for the tests that speak the protocol themselves
# The versions are the ones that the server promises to work with (README.md).

INTEROP_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
INTEROP_CACHE=${GALGO_INTEROP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/galgo/interop}
PYTHON_REQUIREMENTS="apache-iggy==0.9.0 pytest"
XXHASH_REQUIREMENT="xxhash==4.1.0"
CLI_VERSION=0.14.0
RUST_VERSION_MIN=1.95 # of both crates

interop_die() { printf 'interop: %s\n' "$*" >&2; exit 1; }

# Puts a cargo that is new enough first in PATH: the one that is there, or Debian's second one.
use_cargo() {
  local folder version
  for folder in "$(dirname "$(command -v cargo || echo /nowhere/cargo)")" /usr/bin; do
    [ -x "$folder/cargo" ] && [ -x "$folder/rustc" ] || continue
    version=$("$folder/rustc" --version | cut -d' ' -f2)
    if [ "$(printf '%s\n' "$RUST_VERSION_MIN" "$version" | sort -V | head -1)" = "$RUST_VERSION_MIN" ]; then
      PATH=$folder:$PATH
      return 0
    fi
  done
  return 1
}

require_cargo() {
  use_cargo || interop_die "no Rust $RUST_VERSION_MIN or newer. As root, run: apt-get install rustc-web cargo-web"
  # One target folder and one profile, so that test program and command line tool share what they can.
  export CARGO_TARGET_DIR=$INTEROP_CACHE/rust CARGO_PROFILE_DEV_DEBUG=0
}

python_client() {
  local venv=$INTEROP_CACHE/venv
  [ "$(cat "$venv/installed" 2>/dev/null)" = "$PYTHON_REQUIREMENTS" ] && return
  echo "interop: installing $PYTHON_REQUIREMENTS"
  mkdir -p "$INTEROP_CACHE"
  python3 -m venv "$venv" </dev/null || interop_die "python3 -m venv failed. Run: ./x setup"
  # shellcheck disable=SC2086  # a list of words
  "$venv/bin/pip" install -q $PYTHON_REQUIREMENTS </dev/null ||
    interop_die "cannot install from PyPI. Again by hand: $venv/bin/pip install $PYTHON_REQUIREMENTS"
  echo "$PYTHON_REQUIREMENTS" >"$venv/installed"
}

# A venv of its own: tests/crash needs neither the published client nor pytest.
xxhash_venv() {
  local venv=$INTEROP_CACHE/venv-xxhash
  [ "$(cat "$venv/installed" 2>/dev/null)" = "$XXHASH_REQUIREMENT" ] && return
  echo "interop: installing $XXHASH_REQUIREMENT"
  mkdir -p "$INTEROP_CACHE"
  python3 -m venv "$venv" </dev/null || interop_die "python3 -m venv failed. Run: ./x setup"
  "$venv/bin/pip" install -q "$XXHASH_REQUIREMENT" </dev/null ||
    interop_die "cannot install from PyPI. Again by hand: $venv/bin/pip install $XXHASH_REQUIREMENT"
  echo "$XXHASH_REQUIREMENT" >"$venv/installed"
}

rust_client() {
  require_cargo
  # With the lock file that iggy-cli was published with, where it is here already: the two then share most
  # of what they compile. None of our own is kept.
  local project=$INTEROP_ROOT/tests/interop/rust
  if [ ! -e "$project/Cargo.lock" ]; then
    cp "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"iggy-cli-$CLI_VERSION/Cargo.lock" "$project/" 2>/dev/null || true
  fi
  echo "interop: building the Rust client (the first time takes minutes)"
  cargo build --quiet --manifest-path "$project/Cargo.toml" </dev/null ||
    interop_die "the Rust client does not build. Again: tests/interop/run.sh rust"
}

cli_client() {
  local bin=$INTEROP_CACHE/cli/bin/iggy
  [[ "$("$bin" --version 2>/dev/null)" == *"$CLI_VERSION"* ]] && return
  require_cargo
  echo "interop: building iggy-cli $CLI_VERSION (takes minutes, once)"
  # Its default feature, the desktop keyring, is needed: 0.14.0 does not compile without.
  cargo install --quiet --debug --locked --root "$INTEROP_CACHE/cli" \
    iggy-cli --version "$CLI_VERSION" </dev/null ||
    interop_die "iggy-cli does not build. Again: tests/interop/run.sh cli"
}
