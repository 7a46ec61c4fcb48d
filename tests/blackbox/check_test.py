#!/usr/bin/env python3
"""`galgo-server check`, black box: what it says of a directory, against what the next start says and does.

    tests/blackbox/check_test.py --server BIN [--work DIR] [CASE...]

Exit status: 0 fine, 1 usage, 100 the server crashed, hung or did not start, 102 a wrong answer.
"""

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
sys.dont_write_bytecode = True

from cases import Cases, expect, expect_equal  # noqa: E402
from galgo_client import CONSUMER, Client, ServerError, build_batch  # noqa: E402
from galgo_server import SANITIZER, ServerFailure  # noqa: E402

ORIGIN = 1_700_000_000_000_000
SEGMENT_SIZE = 1 << 20
SOUND, CANNOT_RUN, MENDS, DAMAGED = 0, 1, 2, 3
KEY = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="

CASES = Cases(__file__, "the offline check of a data directory")
case = CASES.case


# ---- directories ---------------------------------------------------------------------------------


def fill(client, size=2_600_000):
    """A topic of one partition with three segments, and a stored offset. (stream, topic, messages)"""
    stream = client.create_stream("s")
    topic = client.create_topic(stream, "t", 1, durability="persisted", segment_size=SEGMENT_SIZE)
    count = 0
    while size > 0:
        payloads = [f"{count + n} ".encode().ljust(1000, b".") for n in range(40)]
        client.send(stream, topic, 0, build_batch(payloads, ORIGIN, id_first=count + 1))
        count += len(payloads)
        size -= 40_000
    client.store_offset(stream, topic, 0, 7, 5, consumer_kind=CONSUMER)
    return stream, topic, count


def made(ctx, end="stop", **more):
    """A server that is not running, with its directory filled."""
    server = ctx.server(**more)
    server.start()
    with Client(server.address).login() as client:
        server.topic = fill(client)
        if end == "kill":
            server.kill()
    if end == "stop":
        server.stop()
    return server


def folder(server):
    stream, topic, _ = server.topic
    return server.path / f"streams/{stream}/topics/{topic}/partitions/0"


def logs(server):
    return sorted(folder(server).glob("*.log"))


def image(path):
    """Name, size, time of change and hash of everything below."""
    found = {}
    for place in sorted(path.rglob("*")):
        facts = place.lstat()
        digest = hashlib.sha256(place.read_bytes()).hexdigest() if place.is_file() else ""
        found[str(place.relative_to(path))] = (facts.st_mode, facts.st_size, facts.st_mtime_ns, digest)
    return found


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))


# ---- the command ---------------------------------------------------------------------------------


def run(server, *options, environment=None):
    """Exit status, and what it printed."""
    done = subprocess.run(
        [server.binary, "check", str(server.path), *options],
        env=server.environment | (environment or {}),
        cwd=server.path.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if SANITIZER.search(done.stderr):
        raise ServerFailure(done.stderr[:3000])
    return done.returncode, done.stdout, done.stderr


def check(server, wanted, *options, **more):
    """The report as an object; nothing may be changed by it."""
    before = image(server.path)
    status, out, err = run(server, "--json", *options, **more)
    if "--repair" not in options:
        changed = {name for name in before | image(server.path) if before.get(name) != image(server.path).get(name)}
        expect(not changed, f"the check changed {sorted(changed)[:5]}")
    expect_equal(status, wanted, f"the exit status ({out[:1500]}{err[:500]})")
    return json.loads(out)


def told(report, severity, file="", what=""):
    """Findings of that severity whose file and text contain these."""
    return [
        finding
        for finding in report["findings"]
        if finding["severity"] == severity and file in finding["file"] and what in finding["what"]
    ]


def expect_told(report, severity, file="", what=""):
    found = told(report, severity, file, what)
    expect(found, f"no {severity} about {file} {what}: {report['findings']}"[:1800])
    return found[0]


# ---- cases ---------------------------------------------------------------------------------------


@case
def a_stopped_directory_is_sound(ctx):
    server = made(ctx)
    report = check(server, SOUND)
    _, _, count = server.topic
    expect_equal(report["messages"], count, "messages")
    expect_equal(report["segments"], len(logs(server)), "segments")
    expect_equal(report["bytes"], sum(log.stat().st_size for log in logs(server)), "bytes")
    expect_equal(report["partitions"], 1, "partitions")
    status, out, _ = run(server)
    expect_equal(status, SOUND, "the exit status without --json")
    expect(out.splitlines()[-1].startswith("ok: 1 partitions"), out)


@case
def a_killed_directory_is_mended_by_a_start(ctx):
    server = made(ctx, "kill")
    check(server, MENDS)
    server.start()
    with Client(server.address).login() as client:
        stream, topic, count = server.topic
        expect_equal(client.poll(stream, topic, 0, count - 1, 10).messages[-1][0], count - 1, "the last offset")
    server.stop()
    check(server, SOUND)


@case
def a_running_server_keeps_the_check_out(ctx):
    server = ctx.server()
    server.start()
    status, _, err = run(server)
    expect_equal(status, CANNOT_RUN, "the exit status")
    expect("another process is using it" in err, err)
    server.stop()


@case
def what_cannot_be_checked(ctx):
    server = ctx.server()
    server.path.mkdir(parents=True)
    (server.path / "FORMAT").write_text("galgo-data-format 99\n")
    status, _, err = run(server)
    expect_equal(status, CANNOT_RUN, "a newer format")
    expect("newer version" in err, err)
    shutil.rmtree(server.path)
    status, _, err = run(server)
    expect_equal(status, CANNOT_RUN, "an absent directory")
    status, _, _ = run(server, "--no-such-option")
    expect_equal(status, CANNOT_RUN, "an unknown option")


@case
def damage_in_a_sealed_segment_is_told_with_its_place(ctx):
    """A start does not read there; the poll that meets it gets an error."""
    server = made(ctx)
    log = logs(server)[0]
    data = log.read_bytes()
    (first,) = struct.unpack_from("<Q", data, 32)
    flip(log, first + 300)
    report = check(server, DAMAGED)
    finding = expect_told(report, "damage", log.name)
    expect_equal(finding["byte"], first, "the byte")
    expect_equal((finding["offset"], finding["offset_end"]), (40, 80), "the offsets")
    server.start()
    with Client(server.address).login() as client:
        stream, topic, _ = server.topic
        try:
            client.poll(stream, topic, 0, 40, 10)
        except ServerError:
            pass
        else:
            raise ValueError("the poll of a damaged batch was answered")
        expect_equal(client.poll(stream, topic, 0, 80, 1).messages[0][0], 80, "what is behind it")
    server.stop()


@case
def a_cut_log_fences_its_partition(ctx):
    server = made(ctx)
    os.truncate(logs(server)[0], 100_000)
    report = check(server, DAMAGED)
    fence = next(f for f in told(report, "damage") if "takes no messages" in f.get("start", ""))
    server.start()
    text = server.log_path.read_text(errors="replace")
    expect("a partition takes no messages" in text, "the start says so, too")
    expect(fence["what"].split(": ", 1)[1][:200] in text, f"{fence['what']} is not what the start says")
    server.stop()
    expect((folder(server) / "fenced").exists(), "the fence")
    expect_told(check(server, DAMAGED), "damage", "partitions/0")


@case
def a_torn_tail_is_what_a_start_cuts(ctx):
    server = made(ctx)
    log = logs(server)[-1]
    size = log.stat().st_size
    with open(log, "ab") as file:
        file.write(b"torn" * 100)
    report = check(server, MENDS)
    finding = expect_told(report, "mends", log.name, "no whole batch")
    expect_equal(finding["byte"], size, "where it is cut")
    server.start()
    server.stop()
    expect_equal(log.stat().st_size, size, "what the start left")
    report = check(server, SOUND)
    expect_told(report, "note", ".torn-1")


@case
def indexes_are_repaired_and_nothing_else(ctx):
    server = made(ctx)
    first, second = logs(server)[:2]
    removed, damaged = first.with_suffix(".index"), second.with_suffix(".index")
    kept = removed.read_bytes()
    removed.unlink()
    flip(damaged, 30)
    expect_told(check(server, MENDS), "mends", removed.name)
    expect_told(check(server, MENDS), "mends", damaged.name)
    before = image(server.path)
    status, out, err = run(server, "--repair")
    expect_equal(status, SOUND, f"the check behind the repair ({out[-1500:]} {err})")
    after = image(server.path)
    names = {name for name in before | after if before.get(name, ())[3:] != after.get(name, ())[3:]}
    expect_equal(names, {str(p.relative_to(server.path)) for p in (removed, damaged)}, "what has other bytes")
    expect(removed.read_bytes()[:24] == kept[:24] and removed.read_bytes()[-24:] == kept[-24:], "other entries")
    check(server, SOUND)
    server.start()
    server.stop()


@case
def an_index_that_tells_of_lost_messages_is_kept(ctx):
    server = made(ctx)
    log = logs(server)[0]
    index = log.with_suffix(".index").read_bytes()
    log.unlink()
    check(server, DAMAGED)
    status, _, _ = run(server, "--repair")
    expect_equal(status, DAMAGED, "the exit status of a repair that cannot help")
    expect_equal(log.with_suffix(".index").read_bytes(), index, "the index")
    expect(not log.exists() and not (folder(server) / "fenced").exists(), "the repair makes no file")


@case
def copies_of_the_metadata(ctx):
    """One of four copies of the superblock, one of two of the log: healed. Both: refused, as by the server."""
    server = made(ctx)
    wal = sorted((server.path / "metadata").glob("journal.wal.*"))[0]
    flip(server.path / "metadata/superblock", 4096 + 100)
    flip(wal, 4096 + 200)
    report = check(server, MENDS)
    expect_equal(expect_told(report, "mends", "superblock")["byte"], 4096, "the copy")
    expect_told(report, "mends", wal.name)
    status, out, _ = run(server, "--repair")
    expect_equal(status, SOUND, f"the check behind the repair ({out})")
    flip(wal, 4096 + 200)
    flip(wal, wal.stat().st_size // 2 + 4096 + 200)
    refusal = expect_told(check(server, DAMAGED), "refusal", "metadata")
    server.spawn()
    server.process.wait(30)
    expect(refusal["what"][:60] in server.log_tail(), f"{refusal['what']} is not what the start says")


@case
def offset_files_and_strays(ctx):
    server = made(ctx)
    flip(folder(server) / "offsets/consumers/7", 3)
    (folder(server) / "notes.txt").write_text("mine")
    (server.path / "state/journal-0-0000000000000001.wal.kept-1").write_bytes(b"x")
    report = check(server, DAMAGED)
    expect_told(report, "damage", what="offsets/consumers/7")
    expect_told(report, "note", "notes.txt")
    expect_told(report, "note", ".kept-1")


@case
def encrypted_batches_with_and_without_the_key(ctx):
    keyed = {"IGGY_SYSTEM_ENCRYPTION_ENABLED": "true", "IGGY_SYSTEM_ENCRYPTION_KEY": KEY}
    server = made(ctx, environment=keyed)
    check(server, SOUND)
    without = {"IGGY_SYSTEM_ENCRYPTION_ENABLED": "false", "IGGY_SYSTEM_ENCRYPTION_KEY": ""}
    report = check(server, DAMAGED, environment=without)  # such a start is refused
    expect_told(report, "refusal", "ENCRYPTION")
    expect_equal(report["messages"], server.topic[2], "messages that verify without the key")


@case
def a_directory_that_cannot_be_written(ctx):
    server = made(ctx)
    (server.path / "LOCK").unlink()
    expect_told(check(server, SOUND), "note", "LOCK")
    status, _, err = run(server, "--repair")
    expect_equal(status, CANNOT_RUN, "a repair without the lock")
    expect("lock" in err, err)


if __name__ == "__main__":
    sys.exit(CASES.main())
