#!/usr/bin/env python3
"""How fast metadata changes, with its barriers and without, in turns on fresh data directories.

    tools/metadata_rate.py [--bin build/release/bin] [--clients 64] [--requests 40000] [--rounds 3]

Starts the server, lets galgo-bench change metadata on many connections, reads from /metrics how many
changes one barrier covered. Prints a line a run, then the medians and their ratio. Exit status 1 when
a barrier covered fewer than --per-barrier changes, or the ratio is below --ratio.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.dont_write_bytecode = True

from galgo_server import Server  # noqa: E402

COUNTERS = ("changes", "batches", "barriers", "snapshots")


def counters(server):
    time.sleep(1.5)  # the shard publishes its figures once a second
    metrics = server.metrics()
    return {name: metrics[f"galgo_metadata_{name}_total"] for name in COUNTERS}


def measure(arguments, barriers, work):
    server = Server(
        arguments.bin / "galgo-server", work / "data", 2, {"GALGO_METADATA_BARRIERS": "on" if barriers else "off"}
    )
    try:
        server.start()
        before = counters(server)
        done = subprocess.run(
            [
                arguments.bin / "galgo-bench",
                "metadata",
                "--server",
                server.address,
                "--producers",
                str(arguments.clients),
                "--requests",
                str(arguments.requests),
                "--json",
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        row = json.loads(done.stdout.splitlines()[-1])
        after = counters(server)
        server.stop()
    finally:
        server.end()
        shutil.rmtree(work / "data", ignore_errors=True)
    new = {name: after[name] - before[name] for name in COUNTERS}
    rate = row["requests"] / row["seconds"]
    per_batch = new["changes"] / max(1, new["batches"])
    per_barrier = new["changes"] / new["barriers"] if new["barriers"] else None
    print(
        f"barriers {'on ' if barriers else 'off'}: {rate:9.0f} changes/s, p50 {row['p50_us']:.0f} us, "
        f"p99 {row['p99_us']:.0f} us, {per_batch:.1f} a batch, "
        f"{f'{per_barrier:.1f} a barrier' if per_barrier else 'no barrier'}, {new['snapshots']:.0f} snapshots",
        flush=True,
    )
    return rate, per_barrier


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--per-barrier", type=float, default=16.0)
    parser.add_argument("--ratio", type=float, default=0.5)
    parser.add_argument("--folder", default=None, help="where the data goes; the disk that is measured")
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="galgo-metadata-rate-", dir=arguments.folder))
    rates = {True: [], False: []}
    covered = []
    try:
        for _ in range(arguments.rounds):
            for barriers in (True, False):
                rate, per_barrier = measure(arguments, barriers, work)
                rates[barriers].append(rate)
                if barriers:
                    covered.append(per_barrier)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    on, off = statistics.median(rates[True]), statistics.median(rates[False])
    print(
        f"medians: {on:.0f} changes/s with barriers, {off:.0f} without, ratio {on / off:.2f}, "
        f"{statistics.median(covered):.1f} changes a barrier"
    )
    return 0 if statistics.median(covered) >= arguments.per_barrier and on / off >= arguments.ratio else 1


if __name__ == "__main__":
    sys.exit(main())
