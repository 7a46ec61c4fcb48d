#!/usr/bin/env python3
"""Instructions a message, by callgrind, on the simulated back end: `./x bench instructions` calls it.

    tools/instructions.py [--binary BIN] [--rounds N] [--record]

Counted is the code of the server alone, from the frame to the reply (tests/performance/account.hpp);
neither the simulator nor the client, and no kernel. The figures are compared with those recorded in
tests/performance/instructions.json: more than 5 % above fails. With --rounds the whole count is made
several times; figures of a case that differ by more than 0.5 % fail. --record writes the file.
Exit status: 0 fine, 1 usage or valgrind is missing, 102 a figure is out of bounds.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tests" / "performance" / "instructions.json"
GROWTH_MAX = 0.05
SPREAD_MAX = 0.005


def count(binary):
    """{case: instructions a message}; one dump a case, in the order in which the cases are printed."""
    with tempfile.TemporaryDirectory(prefix="galgo-instructions.") as work:
        out = Path(work) / "out"
        # This valgrind cannot read the debug information of clang 19, and gives up.
        stripped = Path(work) / "galgo-message-cost"
        subprocess.run(["llvm-objcopy-19", "--strip-debug", str(binary), str(stripped)], check=True)
        command = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no"]
        command += ["--combine-dumps=no", f"--callgrind-out-file={out}", str(stripped), "--instructions"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=work)
        if done.returncode != 0:
            print(done.stdout + done.stderr)
            raise SystemExit(f"instructions: {binary} ended with status {done.returncode}")
        figures = {}
        for number, line in enumerate(done.stdout.splitlines(), 1):
            case, messages = re.match(r"(\S+) +requests +\d+ messages +(\d+)", line).groups()
            dump = Path(f"{out}.{number}").read_text()
            total = int(re.search(r"^totals: (\d+)", dump, re.MULTILINE).group(1))
            figures[case] = total / int(messages)
        return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "build" / "release" / "bin" / "galgo-message-cost")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        raise SystemExit("instructions: valgrind is missing. As root: apt-get install --no-install-recommends valgrind")
    binary = options.binary.resolve()
    if not binary.exists():
        raise SystemExit(f"instructions: there is no {binary}. ./x build release galgo-message-cost")
    rounds = [count(binary) for _ in range(max(1, options.rounds))]
    recorded = json.loads(RECORD.read_text())["instructions_a_message"] if RECORD.exists() else {}
    bad = []
    print(f"{'case':28} {'instructions':>13} {'recorded':>10} {'change':>8} {'spread':>8}")
    for case in rounds[0]:
        values = sorted(figures[case] for figures in rounds)
        value = values[len(values) // 2]
        spread = values[-1] / values[0] - 1
        before = recorded.get(case)
        change = value / before - 1 if before else None
        print(
            f"{case:28} {value:13.1f} {before or 0:10.1f} "
            f"{'new' if change is None else format(change, '+.2%'):>8} {spread:8.3%}"
        )
        if spread > SPREAD_MAX:
            bad.append(f"{case} does not repeat")
        if change is not None and change > GROWTH_MAX:
            bad.append(f"{case} grew")
        rounds[0][case] = round(value, 1)
    if options.record:
        RECORD.write_text(json.dumps({"instructions_a_message": rounds[0]}, indent=2) + "\n")
        print(f"recorded in {os.path.relpath(RECORD)}")
        return 0
    if not recorded:
        print("nothing is recorded yet: --record")
    if bad:
        print(f"instructions: {', '.join(bad)}. When that is meant: ./x bench instructions --record")
    return 102 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
