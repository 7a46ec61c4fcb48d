#!/usr/bin/env python3
"""The figures of the storage in one run: what is measured, medians over rounds, ratio, goal, met or not.

    tools/storage_figures.py [--bin build/release/bin] [--folder DISK] [--rounds 3] [--json FILE] [FIGURE ...]
    tools/storage_figures.py --quick                                # a hundredth of the sizes, one round: does it run
    tools/storage_figures.py --other /opt/other/server batches persisted

Figures (all without a name): batches, written, barriers, persisted, recovery, memory, autocommit, cold.
Starts its own servers on loopback with fresh data below --folder, which is the disk that is measured, and
ends them; galgo-bench is the client. --other measures another server of the protocol in turns with ours. It is
sent no topic options, unless --other-topic-options (0.11 and later); for `persisted` it gets --other-env, by
default the settings of older servers that sync every batch. Full sizes need 25 GB of disk and take long.
Exit status: 0 every goal is met, 1 one is not (with --quick too), 2 a figure could not be measured.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.dont_write_bytecode = True

from galgo_server import Server, ServerFailure  # noqa: E402

MB, GB = 10**6, 10**9
MESSAGE = 1000  # payload bytes
FRAME_HEADER, BATCH_HEADER = 48, 256
SYNC = ["IGGY_SYSTEM_PARTITION_ENFORCE_FSYNC=true", "IGGY_SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE=1"]
FAULTS = (ServerFailure, subprocess.SubprocessError, OSError, ValueError, KeyError)  # a figure is not measured


def process_numbers(server, file):
    """{name: number} of /proc/PID/io or /proc/PID/status."""
    text = Path(f"/proc/{server.process.pid}/{file}").read_text()
    return {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+)", text, re.MULTILINE)}


def files_of(folder):
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]


def drop_cache(folder):
    """Takes the pages of its files out of the cache; nobody else on the machine notices. Inodes stay."""
    for path in files_of(folder):
        with open(path, "rb") as file:
            os.fsync(file)  # a dirty page is not dropped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def counters(server, *parts):
    """For each (metric, label) the sum over the shards, once they have published their figures."""
    time.sleep(1.5)
    rows = server.metrics().items()
    return [sum(v for n, v in rows if n.partition("{")[0] == metric and label in n) for metric, label in parts]


class Figures:
    """The rows found, and what every figure needs to find one."""

    def __init__(self, arguments, work):
        self.arguments, self.work = arguments, work
        self.rounds = range(arguments.rounds)
        self.sides = ["galgo", "other"] if arguments.other else ["galgo"]
        self.rows = []

    def size(self, count):
        return max(1, count // 100) if self.arguments.quick else count

    def turns(self, sides):
        """(round, side) with each side first in turn, so that a drift of the machine hits both."""
        order = list(sides)
        for number in self.rounds:
            yield from ((number, side) for side in (order if number % 2 == 0 else order[::-1]))

    @contextlib.contextmanager
    def data(self, name="data"):
        folder = self.work / name
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def running(self, folder, side="galgo", environment=None):
        """A started server on `folder`, stopped at the end; its data stays."""
        binary = self.arguments.bin / "galgo-server" if side == "galgo" else self.arguments.other
        server = Server(binary, folder, self.arguments.shards, environment)
        try:
            server.start(timeout=600)
            yield server
            if server.process.returncode != -signal.SIGKILL:  # by the figure; an end by itself is a failure
                server.stop(timeout=300)
        except FAULTS:
            print(f"---- last lines of the server\n{server.log_tail(15)}\n----", flush=True)
            raise
        finally:
            server.end()

    def load(self, server, verb, total, batch=1000, side="galgo", whole=True, **options):
        """One row of galgo-bench; options as --name value. Moves all of `total` payload bytes, or it is no figure."""
        given = {"total-bytes": total, "batch": batch, "message-size": MESSAGE, "time-limit": 3600, "warmup": 0}
        given |= {"server": server.address, "server-pid": server.process.pid, "json": True}
        given |= {name.replace("_", "-"): value for name, value in options.items()}
        if side == "other" and not self.arguments.other_topic_options:
            given["no-topic-options"] = True
        command = [self.arguments.bin / "galgo-bench", verb]
        for name, value in given.items():
            command += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3900, check=False)
        if done.returncode != 0:
            raise ValueError(f"galgo-bench {verb}: status {done.returncode}: {done.stderr.strip()[-500:]}")
        row = json.loads(done.stdout.splitlines()[-1])
        if whole and row["payload_bytes"] < total:
            raise ValueError(f"galgo-bench {verb}: {row['payload_bytes']} of {total} bytes in {row['seconds']:.0f} s")
        return row

    def add(self, figure, what, unit, values, at_least=None, at_most=None, note=""):
        """One line of the result. Returns the median."""
        median = statistics.median(values)
        goal = f">= {at_least}" if at_least is not None else f"<= {at_most}" if at_most is not None else None
        met = None if goal is None else median >= at_least if at_least is not None else median <= at_most
        row = {"figure": figure, "what": what, "unit": unit, "median": median, "values": values}
        self.rows.append(row | {"goal": goal, "met": met, "note": note})
        spread = f" ({min(values):.4g} to {max(values):.4g})" if len(values) > 1 else ""
        verdict = f"   goal {goal}: {'met' if met else 'NOT MET'}" if goal else ""
        text = f"{figure:<10} {what:<42} {median:>10.4g} {unit}{spread}{verdict}"
        print(text + (f"   {note}" if note else ""), flush=True)
        return median

    def add_sides(self, figure, what, unit, found, **goal):
        """Each side of `found`, and the first to the second, of the medians: the turns of a round are no pairs."""
        medians = [self.add(figure, f"{what}, {side}", unit, values) for side, values in found.items()]
        if len(medians) == 2 and medians[1]:  # CPU time has ticks: a short run may show none
            self.add(figure, f"{what}, {' to '.join(found)}", "x", [medians[0] / medians[1]], **goal)


def batches(run):
    """Produce, then consume, one connection."""
    shapes = {1000: ("1 MB", GB), 64: ("64 KiB", GB), 1: ("1 KiB", 100 * MB)}
    found = {}
    for _, side in run.turns(run.sides):
        with run.data() as folder, run.running(folder, side) as server:
            for batch, (size, total) in shapes.items():
                for verb in ("produce", "consume"):
                    row = run.load(server, verb, run.size(total), batch, side, stream=f"batches-{batch}")
                    for unit, key in (("MB/s", "mb_per_s"), ("CPU s/GB", "cpu_s_per_gb")):
                        sides = found.setdefault((f"{verb} {size}", unit), {name: [] for name in run.sides})
                        sides[side].append(row[key])
    for (what, unit), sides in found.items():
        run.add_sides("batches", what, unit, sides)


def settled_io(server):
    """/proc/PID/io once the server writes nothing more; what it keeps back is not written later in a lump."""
    now = process_numbers(server, "io")
    for _ in range(30):
        time.sleep(1)
        before, now = now, process_numbers(server, "io")
        if now["write_bytes"] == before["write_bytes"]:
            return now
    raise ValueError("the server does not cease to write")


def written(run):
    """Of what an acknowledged batch is: payload and headers. wchar and the journals tell rewriting in the cache."""
    found = {"replicated": [], "persisted": []}
    for _, durability in run.turns(found):
        with run.data() as folder, run.running(folder) as server:
            before = settled_io(server)
            row = run.load(server, "produce", run.size(2 * GB), durability=durability)
            after = settled_io(server)
            (journal,) = counters(server, ("galgo_journal_written_bytes_total", ""))
            acknowledged = row["payload_bytes"] + row["messages"] * FRAME_HEADER + row["requests"] * BATCH_HEADER
            new = after["write_bytes"] - before["write_bytes"], after["wchar"] - before["wchar"], journal
            found[durability].append([count / acknowledged for count in new])
    for durability, samples in found.items():
        write_bytes, wchar, journal = zip(*samples, strict=True)
        run.add("written", f"{durability}, write_bytes", "a byte", write_bytes, at_most=1.1)
        run.add("written", f"{durability}, wchar", "a byte", wchar, note="counts no io_uring")
        run.add("written", f"{durability}, to journals", "a byte", journal)


def barriers(run):
    """Single messages, persisted; each producer has one in flight."""
    parts = [("galgo_commit_seconds_count", 'log="partition"')]
    parts += [("galgo_sync_seconds_count", f'file="{file}"') for file in ("journal", "segment")]
    found = {(partitions, producers): [] for partitions in (1, 16) for producers in (1, 8, 64)}
    for _ in run.rounds:
        with run.data() as folder, run.running(folder) as server:
            after = counters(server, *parts)
            for partitions, producers in found:
                load = {"partitions": partitions, "producers": producers, "durability": "persisted", "time_limit": 60}
                row = run.load(server, "produce", run.size(3000) * producers * MESSAGE, 1, whole=False, **load)
                before, after = after, counters(server, *parts)
                appends, journal, segment = (new - old for new, old in zip(after, before, strict=True))
                if appends < row["requests"] or journal + segment == 0:
                    raise ValueError(f"{row['requests']} sends, {appends:.0f} appends, {journal:.0f} barriers")
                rate, covered = row["requests"] / row["seconds"], appends / (journal + segment)
                found[partitions, producers].append((rate, row["p50_us"], covered, journal, segment))
    for (partitions, producers), samples in found.items():
        name = f"partitions {partitions}, producers {producers}"
        rate, p50, covered, journal, segment = zip(*samples, strict=True)
        run.add("barriers", name, "sends/s", rate)
        run.add("barriers", f"{name}, p50", "us", p50)
        note = f"{statistics.median(journal):.0f} of journals, {statistics.median(segment):.0f} of segments"
        run.add("barriers", name, "appends a barrier", covered, at_least=16 if producers == 64 else None, note=note)


def persisted(run):
    """One connection."""
    pairs = run.arguments.other_env or ([] if run.arguments.other_topic_options else SYNC)
    settings = dict(pair.split("=", 1) for pair in pairs)
    found = {side: [] for side in run.sides}
    for _, side in run.turns(run.sides):
        with run.data() as folder, run.running(folder, side, settings if side == "other" else None) as server:
            row = run.load(server, "produce", run.size(GB), side=side, durability="persisted")
            found[side].append(row["mb_per_s"])
    run.add_sides("persisted", "1 MB batches", "MB/s", found, at_least=1.7)


def start_after_kill(run, folder, messages, spread):
    """Seconds until the start says where it listens, and of the first sends, which open all partitions at once."""
    with run.running(folder) as server:
        seconds = time.monotonic() - server.began
        time.sleep(1.5)
        there, (status, _, text) = server.metrics()["galgo_messages"], server.http("/healthz")
        if there < messages or status != 200:
            raise ValueError(f"{there:.0f} of {messages} messages after the start, /healthz {status}: {text[:200]}")
        first = run.load(server, "produce", spread["partitions"] * MESSAGE, 1, no_create=True, **spread)
    return seconds, first["seconds"]


def recovery(run):
    """kill -9 behind the last acknowledgement. One start works on a copy, so that both find the same."""
    wanted = run.size(10 * GB)
    count = 20 if run.arguments.quick else 200  # a log-in each, which takes long on a busy machine
    spread = {"partitions": count, "producers": count}
    total = min(wanted, int((shutil.disk_usage(run.work).free - 2 * GB) / 2.2) // MB * MB)
    if total < min(wanted, GB):
        raise ValueError("the disk is too full")
    found = {"warm": [], "dropped": []}
    for _ in run.rounds:
        with run.data() as folder, run.data("copy") as copy:
            with run.running(folder) as server:
                row = run.load(server, "produce", total, **spread)
                server.kill()
            subprocess.run(["cp", "-a", folder, copy], check=True)
            subprocess.run(["cat", *files_of(folder)], stdout=subprocess.DEVNULL, check=True)
            found["warm"].append(start_after_kill(run, folder, row["messages"], spread))
            shutil.rmtree(folder)
            drop_cache(copy)
            found["dropped"].append(start_after_kill(run, copy, row["messages"], spread))
    for cache, samples in found.items():
        starts, firsts = zip(*samples, strict=True)
        note = f"the disk has no room for {wanted / GB:.3g} GB" if total < wanted else ""
        name = f"{total / GB:.3g} GB, {count} partitions, cache {cache}"
        run.add("recovery", name, "s", starts, at_most=2, note=note)
        run.add("recovery", "then the first send to each, all at once", "s", firsts)


def memory(run):
    """One topic of one partition, segments of 1 MiB."""
    total = run.size(5 * GB)
    found = []
    for _ in run.rounds:
        with run.data() as folder, run.running(folder) as server:
            for part, more in ((total // 5, {"segment_size": "1 MiB"}), (total - total // 5, {"no_create": True})):
                run.load(server, "produce", part, 250, **more)  # a segment ends behind the batch that fills it
                (segments,) = counters(server, ("galgo_segments", ""))
                found.append(process_numbers(server, "status")["VmRSS"] / 1024)
            if segments < total / 2**20 * 0.9:
                raise ValueError(f"{segments:.0f} segments: they are not of 1 MiB")
    early, late = found[::2], found[1::2]
    run.add("memory", "VmRSS at 20 %", "MiB", early)
    run.add("memory", "VmRSS at 100 %", "MiB", late, note=f"{segments:.0f} segments")
    run.add("memory", "100 % to 20 %", "x", [b / a for a, b in zip(early, late, strict=True)], at_most=1.05)


def autocommit(run):
    """Page cache warm, the same data for both."""
    found = {"auto-commit": [], "by offset": []}
    total = run.size(2 * GB)
    with run.data() as folder, run.running(folder) as server:
        run.load(server, "produce", total)
        run.load(server, "consume", total)
        for number, way in run.turns(found):
            consumer = {"auto_commit": 10 + number} if way == "auto-commit" else {}  # one without a stored offset
            found[way].append(run.load(server, "consume", total, warmup=32, **consumer)["mb_per_s"])
    run.add_sides("autocommit", "consume", "MB/s", found, at_least=0.9)


def cold(run):
    """Both in bytes of the segments' files; the server was just started, the cache is dropped before each."""
    found = {"consume": [], "dd bs=1M": []}
    total = run.size(2 * GB)
    with run.data() as folder:
        with run.running(folder) as server:
            run.load(server, "produce", total)
        for _, way in run.turns(found):
            logs = [path for path in files_of(folder / "streams") if path.suffix == ".log"]
            size = sum(path.stat().st_size for path in logs)
            if size < total:
                raise ValueError(f"the segments hold {size} of {total} bytes")
            drop_cache(folder)
            if way == "consume":
                with run.running(folder) as server:
                    drop_cache(folder / "streams")  # what the start has read
                    seconds = run.load(server, "consume", total)["seconds"]
            else:
                began = time.monotonic()
                for path in logs:
                    subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"], check=True)
                seconds = time.monotonic() - began
            found[way].append(size / MB / seconds)
    run.add_sides("cold", "cache dropped", "MB/s", found)


ALL = {each.__name__: each for each in (batches, written, barriers, persisted, recovery, memory, autocommit, cold)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(ALL))
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--folder", default=None, help="where the data goes; the disk that is measured")
    parser.add_argument("--rounds", type=int, default=None, help="default 3; with --quick 1")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the sizes, to try the tool")
    parser.add_argument("--other", type=Path, default=None, help="another server of the protocol")
    parser.add_argument("--other-env", action="append", default=[], metavar="K=V", help="its settings for `persisted`")
    parser.add_argument("--other-topic-options", action="store_true", help="it takes the options of topics (0.11)")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="the result, as one object")
    arguments = parser.parse_args()
    arguments.rounds = max(1, arguments.rounds or (1 if arguments.quick else 3))
    if unknown := set(arguments.figures) - set(ALL):
        parser.error(f"no figure {' '.join(unknown)}; there are {', '.join(ALL)}")
    if any("=" not in pair for pair in arguments.other_env):
        parser.error("--other-env is K=V")
    for program in (arguments.bin / "galgo-server", arguments.bin / "galgo-bench", arguments.other):
        if program and not os.access(program, os.X_OK):
            parser.error(f"no program at {program}. Run: ./x build release")
    return arguments


def main():
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # so that servers and data go
    work = Path(tempfile.mkdtemp(prefix="galgo-storage-figures-", dir=arguments.folder))
    run = Figures(arguments, work)
    faults = {}
    machine = f"{os.cpu_count()} CPUs, load {' '.join(f'{load:.1f}' for load in os.getloadavg())}, data in {work}"
    print(f"machine: {machine}" + ("; --quick: these are no figures" if arguments.quick else ""), flush=True)
    try:
        for name in arguments.figures or ALL:
            try:
                ALL[name](run)
            except FAULTS as fault:
                faults[name] = str(fault) if isinstance(fault, ValueError) else repr(fault)
                print(f"{name}: NOT MEASURED: {faults[name]}", flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if arguments.json:
            result = {"machine": machine, "quick": arguments.quick, "rounds": arguments.rounds}
            arguments.json.write_text(json.dumps(result | {"figures": run.rows, "faults": faults}, indent=1) + "\n")
    missed = [f"{row['figure']}: {row['what']}" for row in run.rows if row["met"] is False]
    judged = sum(row["met"] is not None for row in run.rows)
    print(f"{judged - len(missed)} of {judged} goals met" + "".join(f"; NOT MET {name}" for name in missed))
    return 2 if faults else 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
