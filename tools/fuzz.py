#!/usr/bin/env python3
"""Runs fuzz targets for a time each, several at once, and prints one row a target: `./x fuzz` calls it.

usage: tools/fuzz.py BUILD_DIR [TARGET...] [--seconds N] [--jobs N]

A target is tests/fuzz/NAME_fuzz.cpp, built as BUILD_DIR/bin/fuzz_NAME (libFuzzer). It starts from the seeds
in tests/fuzz/corpus/NAME, which are only read, and from what earlier runs found; new inputs that reach new
code go to BUILD_DIR/runs/NAME/corpus, the output to BUILD_DIR/runs/NAME/log, and an input that broke a law,
hung or took too much memory to BUILD_DIR/runs/NAME/findings. Exit status: 0 nothing found, 1 usage or a
target that does not run, 100 a finding (the command that repeats it is printed).
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tests" / "fuzz"
INPUT_SECONDS_MAX = 10  # one input; far above what the slowest sound one takes
RSS_MEBIBYTES_MAX = 1024  # of a target with all its instrumentation
ALLOCATION_MEBIBYTES_MAX = 128  # one allocation: what a few bytes may make us ask for
FINDING = re.compile(r"^(crash|leak|oom|timeout)-")  # slow-unit-* is a hint only
ROW = "{:<14} {:>7} {:>11} {:>8} {:>8} {:>7} {:>9}  {}"


def target_names() -> list[str]:
    return sorted(path.name.removesuffix("_fuzz.cpp") for path in SOURCES.glob("*_fuzz.cpp"))


def count_files(folder: pathlib.Path) -> int:
    return sum(1 for _ in folder.iterdir())


def last_number(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


class Run:
    """One target, run once."""

    def __init__(self, build: pathlib.Path, name: str):
        self.name = name
        self.binary = build / "bin" / f"fuzz_{name}"
        self.folder = build / "runs" / name
        self.corpus = self.folder / "corpus"
        self.findings = self.folder / "findings"
        self.log = self.folder / "log"
        self.found: list[pathlib.Path] = []
        self.status = 0

    def command(self, seconds: int) -> list[str]:
        command = [
            str(self.binary),
            f"-max_total_time={seconds}",
            f"-timeout={INPUT_SECONDS_MAX}",
            f"-rss_limit_mb={RSS_MEBIBYTES_MAX}",
            f"-malloc_limit_mb={ALLOCATION_MEBIBYTES_MAX}",
            f"-artifact_prefix={self.findings}/",
            "-print_final_stats=1",
        ]
        words = SOURCES / f"{self.name}.dict"
        if words.exists():
            command.append(f"-dict={words}")
        return command + [str(self.corpus), str(SOURCES / "corpus" / self.name)]

    def run(self, seconds: int) -> "Run":
        self.corpus.mkdir(parents=True, exist_ok=True)
        self.findings.mkdir(exist_ok=True)
        if not self.binary.exists():
            raise SystemExit(f"fuzz: no {os.path.relpath(self.binary)}. Build: ./x build fuzz fuzz_targets")
        before = set(self.findings.iterdir())
        entries = count_files(self.corpus)
        started = time.monotonic()
        with self.log.open("wb") as log:
            self.status = subprocess.run(
                self.command(seconds), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            ).returncode
        self.seconds = round(time.monotonic() - started)
        text = self.log.read_text(errors="replace")
        self.executions = last_number(r"stat::number_of_executed_units: *(\d+)", text)
        self.coverage = last_number(r"^#\d+\s.* cov: (\d+)", text) or last_number(r"\bcov: (\d+)", text)
        self.features = last_number(r"\bft: (\d+)", text)
        self.new_entries = count_files(self.corpus) - entries
        self.found = [path for path in sorted(set(self.findings.iterdir()) - before) if FINDING.match(path.name)]
        return self

    def row(self) -> str:
        rate = self.executions // max(self.seconds, 1)
        end = "none" if self.status == 0 else f"exit {self.status}"
        if self.found:
            end = ", ".join(path.name for path in self.found)
        return ROW.format(
            self.name, self.seconds, self.executions, rate, self.coverage, self.features, self.new_entries, end
        )

    def explain(self) -> None:
        """What to type to see it again."""
        print(f"{self.name}: exit {self.status}, its output is in {os.path.relpath(self.log)}", file=sys.stderr)
        # With a finding that is the stack, and a short input in base64: the file may be gone with the machine.
        for line in self.log.read_text(errors="replace").splitlines()[-50:]:
            print(f"  {line}", file=sys.stderr)
        for path in self.found:
            words = [os.path.relpath(self.binary), os.path.relpath(path)]
            print(f"  again: {shlex.join(words)}", file=sys.stderr)


def main() -> int:
    known = target_names()
    parser = argparse.ArgumentParser(prog="./x fuzz", description=f"Targets: {', '.join(known)}.")
    parser.add_argument("build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*", metavar="target", help="default: all")
    parser.add_argument("--seconds", type=int, default=600, help="a target, default 600")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="targets at once, default one a core")
    options = parser.parse_args()
    names = known if options.targets in ([], ["all"]) else options.targets
    for name in names:
        if name not in known:
            parser.error(f"no target '{name}'. There are: {' '.join(known)}")
    if options.seconds < 1 or options.jobs < 1:
        parser.error("--seconds and --jobs are at least 1")

    print(ROW.format("target", "seconds", "executions", "a second", "coverage", "feat.", "new seeds", "finding"))
    runs = [Run(options.build.resolve(), name) for name in names]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run.run, options.seconds) for run in runs]):
            print(done.result().row(), flush=True)
    broken = [run for run in runs if run.status != 0 or run.found]
    for run in broken:
        run.explain()
    if any(run.found for run in broken):
        return 100
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
