#!/usr/bin/env python3
"""What a server costs that nobody talks to: resident memory and CPU time, black box.

    tests/performance/idle_test.py [--server BIN] [--shards N] [--seconds N]

Without --server: build/release/bin/galgo-server, and nothing is measured (status 0, and it says so)
where that does not exist. A binary with a sanitizer is refused, its memory says nothing.
Exit status: 0 fine, 1 usage, 100 the server crashed or did not start, 102 it costs too much.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.dont_write_bytecode = True

from galgo_server import Server, ServerFailure  # noqa: E402

RESIDENT_BYTES_MAX = 64 << 20
CPU_SHARE_MAX = 0.01  # of one core
SETTLE_SECONDS = 5


def resident_bytes(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ServerFailure("the server is gone")


def cpu_seconds(pid):
    """Of all threads; utime and stime count ticks of 10 ms, schedstat nanoseconds."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    binary = options.server or ROOT / "build" / "release" / "bin" / "galgo-server"
    if not binary.exists():
        if options.server:
            print(f"idle: there is no {binary}")
            return 1
        print("idle: SKIPPED, there is no release build of the server (./x build release galgo-server)")
        return 0
    if b"__asan_init" in binary.read_bytes() or b"__tsan_init" in binary.read_bytes():
        print(f"idle: {binary} is a build with sanitizers; give it a release build")
        return 1
    with tempfile.TemporaryDirectory(prefix="galgo-idle.") as work:
        server = Server(binary, os.path.join(work, "data"), shards=options.shards)
        try:
            server.start()
            time.sleep(SETTLE_SECONDS)
            before = cpu_seconds(server.process.pid)
            began = time.monotonic()
            time.sleep(options.seconds)
            used = cpu_seconds(server.process.pid) - before
            share = used / (time.monotonic() - began)
            resident = resident_bytes(server.process.pid)
            server.stop()
        except ServerFailure as failure:
            print(f"idle: {failure}\n{server.log_tail()}")
            return 100
        finally:
            server.end()
    print(
        f"idle: {options.shards} shards, resident {resident / (1 << 20):.1f} MiB (below {RESIDENT_BYTES_MAX >> 20}), "
        f"CPU {share * 100:.3f} % of a core (below {CPU_SHARE_MAX * 100:.0f})"
    )
    return 0 if resident < RESIDENT_BYTES_MAX and share < CPU_SHARE_MAX else 102


if __name__ == "__main__":
    sys.exit(main())
