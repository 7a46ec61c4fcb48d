#!/usr/bin/env python3
"""clang-tidy over our files, skipping those that were clean before: `./x lint` calls it.

usage: tools/tidy.py BUILD_DIR [--changed]

The list of checks is .clang-tidy. A file is known to be clean by a hash of what the compiler would see
(preprocessed text with comments, flags, list of checks, version of the tool); the folder of this checkout
is taken out of it, so that a fresh clone profits from an older one. The hashes are empty files in
$XDG_CACHE_HOME/galgo/tidy; those not used for 30 days are removed. --changed: only files that differ from
the main branch, or are new.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

TOOL = "clang-tidy-19"
ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "galgo" / "tidy"
CACHE_SECONDS_MAX = 30 * 24 * 3600
NOISE = re.compile(r"^\d+ warnings? (generated|treated)|^Suppressed \d+|^Use -header-filter")


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    return done.stdout.split()


def changed_files() -> set[str]:
    base = git("merge-base", "HEAD", "main") or ["HEAD"]
    return set(git("diff", "--name-only", base[0])) | set(git("ls-files", "-o", "--exclude-standard"))


def fingerprint(entry: dict, salt: bytes) -> pathlib.Path:
    arguments = shlex.split(entry["command"])
    output = arguments.index("-o")
    del arguments[output : output + 2]
    arguments.remove("-c")
    text = subprocess.run(
        arguments + ["-E", "-P", "-C"], cwd=entry["directory"], capture_output=True, check=True
    ).stdout
    seen = hashlib.sha256(salt)
    for part in (" ".join(arguments).encode(), text):
        seen.update(part.replace(str(ROOT).encode(), b"") + b"\0")
    return CACHE / seen.hexdigest()


def check(entry: dict, build: str, salt: bytes) -> tuple[bool, str]:
    """True and nothing where the file is clean; else False and what the tool says."""
    try:
        clean = fingerprint(entry, salt)
    except (subprocess.CalledProcessError, ValueError):
        clean = None  # it does not even preprocess: the tool says why
    if clean and clean.exists():
        clean.touch()
        return True, ""
    done = subprocess.run(
        [TOOL, "-p", build, "--quiet", entry["file"]],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    if done.returncode == 0:
        if clean:
            clean.touch()
        return True, ""
    return False, "\n".join(line for line in done.stdout.splitlines() if not NOISE.match(line))


def main() -> int:
    build = sys.argv[1]
    entries = {}  # one a file
    for entry in json.loads((ROOT / build / "compile_commands.json").read_text()):
        path = os.path.relpath(entry["file"], ROOT)
        if path.startswith(("src/", "tests/")) and path.endswith(".cpp"):
            entries[path] = entry
    if "--changed" in sys.argv[2:]:
        entries = {path: entries[path] for path in changed_files() & entries.keys()}
    CACHE.mkdir(parents=True, exist_ok=True)
    salt = (ROOT / ".clang-tidy").read_bytes() + subprocess.run([TOOL, "--version"], capture_output=True).stdout
    failed = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {path: pool.submit(check, entry, build, salt) for path, entry in sorted(entries.items())}
        for path, run in runs.items():
            clean, text = run.result()
            if not clean:
                failed.append(path)
                print(text, flush=True)
    for old in CACHE.iterdir():
        if old.stat().st_mtime < time.time() - CACHE_SECONDS_MAX:
            old.unlink(missing_ok=True)
    print(f"clang-tidy: {len(entries) - len(failed)} files clean, {len(failed)} not {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
