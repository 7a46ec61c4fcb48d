#!/usr/bin/env python3
"""What the whole server promises about itself, black box: how it refuses, what it shows, what it costs.

    tests/blackbox/node_test.py --server BIN [--work DIR] [CASE...]

Exit status: 0 fine, 1 usage, 100 the server crashed or did not start, 102 a wrong answer.
"""

import argparse
import contextlib
import ctypes
import errno
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
sys.dont_write_bytecode = True

from galgo_client import (  # noqa: E402
    OP_CREATE_GROUP,
    OP_DELETE_GROUP,
    OP_DELETE_STREAM,
    OP_JOIN_GROUP,
    OP_REGISTER,
    OP_SEND_MESSAGES,
    OP_STORE_OFFSET,
    Client,
    ServerError,
    build_batch,
    identifier,
    send_body,
    shard_of_partition,
    str8,
)
from galgo_server import Server, ServerFailure  # noqa: E402

ORIGIN = 1_700_000_000_000_000
SHARDS = 2
CASES = []


class Wrong(Exception):
    pass


def case(function):
    CASES.append(function)
    return function


def expect(condition, text):
    if not condition:
        raise Wrong(text)


@contextlib.contextmanager
def running(ctx, **more):
    """A server of its own; at the end it must stop as asked, without a sanitizer report."""
    server = Server(ctx.server, ctx.work / f"data{len(ctx.servers)}", shards=SHARDS, **more)
    ctx.servers.append(server)
    server.start()
    yield server
    server.stop()
    report = server.sanitizer_report()
    if report:
        raise ServerFailure("sanitizer report:\n" + report)


def grown(before, after, name):
    return after.get(name, 0) - before.get(name, 0)


# ---- a metadata log that is not there ----


@case
def a_lost_metadata_log_is_no_first_start(ctx):
    """With partitions, or a completed start, beside it an empty metadata directory is refused."""
    with running(ctx) as server:
        with Client(server.address).login() as client:
            client.create_topic(client.create_stream("s"), "t", 1)
            client.send("s", "t", 0, build_batch([b"x"], ORIGIN))
    config = server.path / "runtime" / "current_config.toml"
    expect(config.exists(), "no current_config.toml")
    lost = ctx.work / "lost-metadata"
    (server.path / "metadata").rename(lost)

    def refusal():
        environment = {key: value for key, value in server.environment.items() if key != "RUST_LOG"}
        ended = subprocess.run(
            [ctx.server, "--with-default-root-credentials"],
            env=environment, capture_output=True, text=True, timeout=60, check=False,
        )
        expect(ended.returncode == 1, f"status {ended.returncode}: {ended.stderr[-500:]}")
        return ended.stderr

    proofs = (
        (lambda: None, "streams holds partitions"),
        (lambda: shutil.rmtree(server.path / "streams"), "current_config.toml says"),
        (config.unlink, "state holds journals"),
    )
    for take_away, proof in proofs:
        take_away()
        text = refusal()
        expect(proof in text, f"the refusal does not say {proof!r}: {text[-800:]}")
    shutil.rmtree(server.path / "metadata", ignore_errors=True)
    lost.rename(server.path / "metadata")
    server.start()
    with Client(server.address).login() as client:
        expect(client.partitions("s", "t"), "the topic is gone")


# ---- io_uring is not there -----------------------------------------------------------------------


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class Program(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint16), ("code", ctypes.POINTER(Instruction))]


def filter_answering(number):
    """For preexec_fn: from now on io_uring_setup fails with that errno, as under a container's filter."""
    io_uring_setup, no_new_privs, set_seccomp, filter_mode = 425, 38, 22, 2
    code = (Instruction * 4)(
        Instruction(0x20, 0, 0, 0),  # A = number of the system call
        Instruction(0x15, 0, 1, io_uring_setup),
        Instruction(0x06, 0, 0, 0x00050000 | number),  # return errno
        Instruction(0x06, 0, 0, 0x7FFF0000),  # allow
    )
    program = Program(len(code), code)
    libc = ctypes.CDLL(None, use_errno=True)

    def install():
        if libc.prctl(no_new_privs, 1, 0, 0, 0) != 0 or libc.prctl(set_seccomp, filter_mode, ctypes.byref(program)) != 0:
            os._exit(90)

    return install


@case
def io_uring_denied(ctx):
    """Refuses at once, with one line that names io_uring, the reason and the switch."""
    wanted = {
        errno.EPERM: ("io_uring", "forbidden", "seccomp=unconfined", "io_uring_setup", "kernel.io_uring_disabled=0"),
        errno.ENOSYS: ("io_uring", "missing", "Linux 6.1", "seccomp=unconfined", "io_uring_setup"),
    }
    for number, words in wanted.items():
        name = errno.errorcode[number]
        server = Server(ctx.server, ctx.work / f"denied-{name}", shards=SHARDS)
        began = time.monotonic()
        ended = subprocess.run(
            [server.binary, "--with-default-root-credentials"],
            env=server.environment,
            cwd=ctx.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            text=True,
            check=False,
            preexec_fn=filter_answering(number),
        )
        took = time.monotonic() - began
        expect(ended.returncode != 90, f"{name}: the filter cannot be installed")
        expect(ended.returncode == 1, f"{name}: status {ended.returncode}: {ended.stderr[-500:]}")
        expect(took < 5, f"{name}: took {took:.1f} s")
        lines = ended.stderr.strip().splitlines()
        expect(len(lines) == 1, f"{name}: {len(lines)} lines on stderr: {ended.stderr[-500:]}")
        missing = [word for word in words if word not in lines[0]]
        expect(not missing, f"{name}: {missing} not in: {lines[0]}")


@case
def ring_above_the_default_size(ctx):
    """A larger submission ring than the default starts, on every shard."""
    with running(ctx, environment={"IGGY_SHARD_RUNTIME_CAPACITY": "8192"}) as server:
        for _ in range(SHARDS):  # connections go round-robin to the shards
            Client(server.address).login().close()


# ---- metrics -------------------------------------------------------------------------------------


class Times:
    """One histogram between two looks at /metrics."""

    def __init__(self, before, after, family, **labels):
        text = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        self.name = f"{family}{{{text}}}"
        expect(f"{family}_count{{{text}}}" in after, f"no {self.name}")
        self.count = grown(before, after, f"{family}_count{{{text}}}")
        self.sum = grown(before, after, f"{family}_sum{{{text}}}")
        start = f"{family}_bucket{{{text},le="
        buckets = [value for name, value in after.items() if name.startswith(start)]
        expect(len(buckets) > 5 and buckets == sorted(buckets), f"{self.name}: buckets {buckets}")
        expect(buckets[-1] == after[f"{family}_count{{{text}}}"], f"{self.name}: +Inf is not the count")

    def check(self, least, most, seconds):
        expect(least <= self.count <= most, f"{self.name}: {self.count} records, not {least}..{most}")
        if self.count:
            expect(0 < self.sum <= seconds, f"{self.name}: {self.sum} s in {seconds} s")
        else:
            expect(self.sum == 0, f"{self.name}: {self.sum} s without a record")


@case
def commit_and_sync_times(ctx):
    """Each send is one record of its owner's commit times; syncs are those that `persisted` needs."""
    with running(ctx) as server, Client(server.address).login() as client:
        stream = client.create_stream("times")
        topics = {
            durability: client.create_topic(stream, durability, 1, durability=durability)
            for durability in ("persisted", "replicated")
        }

        def measured(work):
            before, began = server.metrics(), time.monotonic()
            work()
            seconds = time.monotonic() - began
            return before, server.metrics(), seconds

        def sends(durability, batch, count):
            owner = shard_of_partition(stream, topics[durability], 0, SHARDS)
            before, after, seconds = measured(
                lambda: [client.send(stream, topics[durability], 0, batch) for _ in range(count)]
            )
            commit = Times(before, after, "galgo_commit_seconds", log="partition", shard=owner)
            commit.check(count, count, seconds)
            other = Times(before, after, "galgo_commit_seconds", log="partition", shard=1 - owner)
            other.check(0, 0, seconds)
            journal, segment = (
                Times(before, after, "galgo_sync_seconds", file=file, shard=owner) for file in ("journal", "segment")
            )
            return commit, journal, segment, seconds

        commit, journal, segment, seconds = sends("persisted", build_batch([b"x" * 200], ORIGIN), 20)
        journal.check(20, 20, commit.sum)  # one after the other, each inside its commit
        segment.check(0, 0, seconds)
        commit, journal, segment, seconds = sends("persisted", build_batch([bytes(100_000)], ORIGIN), 5)
        journal.check(5, 5, commit.sum)  # their names
        segment.check(5, 6, commit.sum)
        _, journal, _, seconds = sends("replicated", build_batch([b"x" * 200], ORIGIN), 20)
        journal.check(0, 0, seconds)

        before, after, seconds = measured(lambda: [client.create_stream(f"s{number}") for number in range(5)])
        commit = Times(before, after, "galgo_commit_seconds", log="metadata", shard=0)
        commit.check(5, 5, seconds)
        Times(before, after, "galgo_sync_seconds", file="metadata_log", shard=0).check(5, 5, commit.sum)


@case
def counters_never_go_back(ctx):
    """Two looks: every `_total`, `_count` and bucket is there again and at least as high."""
    with running(ctx) as server:
        with Client(server.address).login() as client:
            stream = client.create_stream("c")
            topic = client.create_topic(stream, "t", 4)
            looks = []
            for _ in range(3):
                for partition in range(4):
                    client.send(stream, topic, partition, build_batch([b"x"], ORIGIN))
                looks.append(server.metrics())
        for before, after in zip(looks, looks[1:]):
            for name, value in before.items():
                family = name.partition("{")[0]
                if family.endswith(("_total", "_count", "_bucket")):
                    expect(after.get(name, -1) >= value, f"{name}: {value}, then {after.get(name)}")
        frames = sum(v for k, v in looks[-1].items() if k.startswith("galgo_frames_received_total"))
        expect(frames == 3 + 12, f"{frames} frames were counted, not 15")


# ---- shards --------------------------------------------------------------------------------------


def shard_of(client, server):
    """The shard that counts this connection's frames."""
    before = server.metrics()
    client.ping()
    after = server.metrics()
    counts = [grown(before, after, f'galgo_frames_received_total{{shard="{shard}"}}') for shard in range(SHARDS)]
    expect(sorted(counts) == [0, 1], f"one ping was counted as {counts}")
    return counts.index(1)


def mesh(before, after, what):
    return {
        (a, b): grown(before, after, f'galgo_mesh_{what}_total{{from="{a}",to="{b}"}}')
        for a in range(SHARDS)
        for b in range(SHARDS)
    }


@case
def mesh_costs(ctx):
    """Connections and partitions on both shards; what is foreign costs one request and one reply each."""
    with running(ctx) as server, Client(server.address).login() as first, Client(server.address).login() as second:
        clients = {shard_of(client, server): client for client in (first, second)}
        expect(len(clients) == SHARDS, f"both connections are on shard {list(clients)[0]}")
        stream = first.create_stream("mesh")
        places = {}  # owner -> (topic, partition)
        for number in range(64):  # the first topics may have all their partitions on one shard
            topic = first.create_topic(stream, f"t{number}", 4)
            for partition in range(4):
                places.setdefault(shard_of_partition(stream, topic, partition, SHARDS), (topic, partition))
            if len(places) == SHARDS:
                break
        expect(len(places) == SHARDS, "64 topics have all their partitions on one shard")

        small, large = build_batch([b"x" * 300], ORIGIN), build_batch([bytes(100_000)], ORIGIN)
        count = 20
        for connection, client in clients.items():
            for owner, (topic, partition) in places.items():
                client.send(stream, topic, partition, small)  # the first touch
                for what, work in {
                    "small sends": lambda: client.send(stream, topic, partition, small),
                    "large sends": lambda: client.send(stream, topic, partition, large),
                    "polls": lambda: client.poll(stream, topic, partition, 0, 10),
                    "stored offsets": lambda: client.store_offset(stream, topic, partition, 1, 0),
                    "offset reads": lambda: client.stored_offset(stream, topic, partition, 1),
                }.items():
                    before = server.metrics()
                    for _ in range(count):
                        work()
                    after = server.metrics()
                    for kind in ("requests", "replies"):
                        wanted = {pair: 0 for pair in mesh({}, {}, kind)}
                        if owner != connection:
                            wanted[(connection, owner)] = count
                        got = mesh(before, after, kind)
                        text = f"{count} {what} from shard {connection} to a partition of shard {owner}"
                        expect(got == wanted, f"{text}: {kind} {got}")
        # Changes of metadata go to shard 0; what is read of it is read where the connection is.
        for connection, client in clients.items():
            before = server.metrics()
            for number in range(count):
                client.create_stream(f"s{connection}-{number}")
                client.partitions(stream, places[0][0])
            after = server.metrics()
            for kind in ("requests", "replies"):
                got = mesh(before, after, kind)
                foreign = got.pop((1, 0))
                expect(foreign == (count if connection == 1 else 0), f"{count} changes from shard {connection}: {foreign} {kind}")
                expect(not any(got.values()), f"{count} changes from shard {connection}: other {kind} {got}")

        deadline = time.monotonic() + 10  # the number of open partitions is published once a second
        while True:
            now = server.metrics()
            connections = [now[f'galgo_connections{{shard="{shard}"}}'] for shard in range(SHARDS)]
            partitions = [now[f'galgo_open_partitions{{shard="{shard}"}}'] for shard in range(SHARDS)]
            if connections == [1, 1] and partitions == [1, 1]:
                break
            expect(time.monotonic() < deadline, f"connections {connections}, open partitions {partitions}")
            time.sleep(0.1)


@case
def idle_costs_little(ctx):
    """Far below 1 % of a core, with everything that watches the shards."""
    with running(ctx) as server, Client(server.address).login() as client:

        def used_ns():
            tasks = Path(f"/proc/{server.process.pid}/task")
            return {
                (task / "comm").read_text().strip(): int((task / "schedstat").read_text().split()[0])
                for task in tasks.iterdir()
            }

        client.ping()
        time.sleep(1)
        before = used_ns()
        time.sleep(5)
        after = used_ns()
        percent = {name: (after[name] - used) / 5e7 for name, used in before.items()}
        print("   " + ", ".join(f"{name} {share:.2f} %" for name, share in sorted(percent.items())))
        expect(sum(percent.values()) < 1, f"an idle server takes {percent} percent of a core")


@case
def topics_deleted_before_a_stop_are_gone(ctx):
    """Lanes of 2, and many more partitions of the other shard to drop when the stop comes: all are dropped."""
    server = Server(
        ctx.server,
        ctx.work / f"data{len(ctx.servers)}",
        shards=SHARDS,
        environment={"IGGY_SYSTEM_SHARDING_INBOX_CAPACITY": "2"},
    )
    ctx.servers.append(server)
    batch = build_batch([b"x"], ORIGIN)
    for _ in range(3):
        server.start()
        with Client(server.address).login() as client:
            stream = client.create_stream("s")
            topic = client.create_topic(stream, "t", 300)
            for partition in range(300):
                client.send(stream, topic, partition, batch)
            client.delete_topic(stream, topic)
            client.call(OP_DELETE_STREAM, identifier(stream))
        server.stop()
        left = list((server.path / "streams").glob("*/topics/*/partitions/*"))
        expect(not left, f"{len(left)} partitions of a deleted topic have files: {left[:3]}")


# ---- stored offsets ------------------------------------------------------------------------------


@case
def stored_offset_is_not_undone_by_an_old_record(ctx):
    """A journal file that another partition holds outlives the checkpoint and the file of the newer record."""
    server = Server(ctx.server, ctx.work / f"data{len(ctx.servers)}", shards=1)
    ctx.servers.append(server)
    server.start()
    large = build_batch([bytes(6000)] * 10, ORIGIN)  # below what bypasses the journal

    def fill(client, stream, topic, mebibytes):
        for _ in range(mebibytes * 1024 * 1024 // 60_000):
            client.send(stream, topic, 0, large)

    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        idle, busy = (client.create_topic(stream, name, 1) for name in ("idle", "busy"))
        client.send(stream, idle, 0, build_batch([b"holds the first journal file"], ORIGIN))
        fill(client, stream, busy, 1)
        client.store_offset(stream, busy, 0, 1, 10)
        client.store_offset(stream, busy, 0, 2, 11)
        client.store_offset(stream, busy, 0, 3, 12)
        fill(client, stream, busy, 9)  # into the second file
        client.store_offset(stream, busy, 0, 1, 100)
        client.delete_offset(stream, busy, 0, 2)
        time.sleep(1.5)  # a checkpoint is written each second
        fill(client, stream, busy, 40)  # the second file is written anew
    server.kill()
    for attempt in ("after kill -9", "after a second start"):
        server.start()
        with Client(server.address).login() as client:
            stored = [client.stored_offset(stream, busy, 0, consumer) for consumer in (1, 2, 3)]
            expect(stored == [100, None, 12], f"{attempt}: stored offsets {stored}")
            client.store_offset(stream, busy, 0, 3, 13 if attempt == "after kill -9" else 14)
            expect(client.stored_offset(stream, busy, 0, 3) in (13, 14), "a new offset is not stored")
            client.store_offset(stream, busy, 0, 3, 12)
        server.kill()


@case
def offset_of_a_deleted_group_does_not_come_back(ctx):
    """What a crash left of it goes at the next start: it would count toward the bound for ever."""
    server = Server(ctx.server, ctx.work / f"data{len(ctx.servers)}", shards=SHARDS)
    ctx.servers.append(server)
    server.start()

    def stored_by(groups_by_name, stream, topic):
        return {name: group_file(stream, topic, group).exists() for name, group in groups_by_name.items()}

    def group_file(stream, topic, group):
        return server.path / f"streams/{stream}/topics/{topic}/partitions/0/offsets/groups/{group}"

    def wait_for(what, wanted, text):
        deadline = time.monotonic() + 10  # a checkpoint is written each second
        while what() != wanted:
            expect(time.monotonic() < deadline, f"{text}: {what()}")
            time.sleep(0.05)

    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 1)
        client.send(stream, topic, 0, build_batch([b"x"], ORIGIN))
        where = identifier(stream) + identifier(topic)
        groups = {}
        for name in ("kept", "deleted"):
            (groups[name],) = struct.unpack_from("<I", client.call(OP_CREATE_GROUP, where + str8(name)))
            client.call(OP_JOIN_GROUP, where + identifier(name))
            body = b"\x02" + identifier(name) + where + struct.pack("<BIQB", 1, 0, 0, 1)
            client.call(OP_STORE_OFFSET, body)
        files = lambda: stored_by(groups, stream, topic)  # noqa: E731
        wait_for(files, {"kept": True, "deleted": True}, "the files of stored offsets")
        lost = group_file(stream, topic, groups["deleted"])
        content = lost.read_bytes()
        client.call(OP_DELETE_GROUP, where + identifier("deleted"))
        wait_for(files, {"kept": True, "deleted": False}, "after the group was deleted")
    server.stop()
    lost.write_bytes(content)  # as if the server had died before it was told
    server.start()
    wait_for(files, {"kept": True, "deleted": False}, "after a start")
    server.stop()


# ---- messages that are lost ------------------------------------------------------------------------


@case
def a_repeated_send_has_its_first_offset(ctx):
    """The same bytes again are no new messages: in the same session, with the same checksum, on either shard."""
    with (
        running(ctx) as server,
        Client(server.address).login() as client,
        Client(server.address).login() as other,
    ):
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 8)
        before = server.metrics()

        def send(by, frame):
            by.send_raw(frame)
            return struct.unpack_from("<IIIIQ", by.take().payload())[4]

        retries = 0
        for partition in range(8):
            batches = [build_batch([bytes([i]) * 100] * 3, ORIGIN + i) for i in range(4)]
            frames = [client.frame(OP_SEND_MESSAGES, send_body(stream, topic, partition, one)) for one in batches]
            for index, frame in enumerate(frames):
                expect(send(client, frame) == 3 * index, "a new send has another offset")
                for again in frames[: index + 1]:
                    expect(send(client, again) == 3 * frames.index(again), "a repeated send has another offset")
                    retries += 1
            # The number of another send, and a send of another session: both are new.
            same_number = client.frame(
                OP_SEND_MESSAGES, send_body(stream, topic, partition, batches[1]), request=client.request - 1
            )
            expect(send(client, same_number) == 12, "another batch under a known number")
            foreign = other.frame(
                OP_SEND_MESSAGES, send_body(stream, topic, partition, batches[0]), request=client.request - 4
            )
            expect(send(other, foreign) == 15, "the batch of another session")
            polled = client.poll(stream, topic, partition, 0, 100)
            expect(
                (polled.current_offset, len(polled.messages)) == (17, 18),
                f"{len(polled.messages)} messages up to {polled.current_offset}",
            )
        time.sleep(1.2)  # the shards publish their figures once a second
        after = server.metrics()
        answered = sum(
            grown(before, after, f'galgo_retries_answered_total{{shard="{shard}"}}') for shard in range(SHARDS)
        )
        expect(answered == retries, f"{answered} of {retries} retries were counted")


@case
def lost_messages_are_told_to_polls(ctx):
    """The log of a sealed segment is gone, another one has a flipped byte: polls say so where they would jump."""
    cannot_read, segment_size = 4011, 1 << 20
    server = Server(ctx.server, ctx.work / f"data{len(ctx.servers)}", shards=SHARDS)
    ctx.servers.append(server)
    server.start()
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topics = {
            durability: client.create_topic(stream, durability, 1, durability=durability, segment_size=segment_size)
            for durability in ("persisted", "replicated")
        }
        batch = build_batch([bytes(100_000)] * 2, ORIGIN)
        for topic in topics.values():
            for _ in range(30):
                client.send(stream, topic, 0, batch)
    server.stop()
    holes = {}
    for topic in topics.values():
        logs = sorted((server.path / f"streams/{stream}/topics/{topic}/partitions/0").glob("*.log"))
        starts = [int(log.stem) for log in logs]
        expect(len(starts) > 3, f"too few segments: {starts}")
        holes[topic] = starts[1:4]
        logs[1].unlink()
        with logs[3].open("r+b") as file:
            file.seek(300)
            file.write(b"\xff")
    server.start()
    with Client(server.address).login() as client:
        for durability, topic in topics.items():
            lost, behind, damaged = holes[topic]

            def poll(offset, count=10, topic=topic, **more):
                return client.poll(stream, topic, 0, offset, count, **more)

            def expect_refused(offset, code=None, poll=poll, durability=durability, **more):
                try:
                    reply = poll(offset, **more)
                except ServerError as refused:
                    expect(code in (None, refused.code), f"{durability}: {offset} is refused with {refused.code}")
                else:
                    raise Wrong(f"{durability}: a poll at {offset} has an answer: {reply}")

            read = [m[0] for m in poll(lost - 2).messages]
            expect(read == [lost - 2, lost - 1], f"{durability}: before the loss: {read}")
            expect_refused(lost, cannot_read)
            expect_refused(behind - 1, cannot_read)
            read = [m[0] for m in poll(behind, 2).messages]
            expect(read == [behind, behind + 1], f"{durability}: behind the loss: {read}")
            expect_refused(damaged)  # the flipped byte
            read = [m[0] for m in poll(damaged + 2, 2).messages]
            expect(read == [damaged + 2, damaged + 3], f"{durability}: behind the damage: {read}")
            client.store_offset(stream, topic, 0, 1, lost - 1)
            expect_refused(0, cannot_read, kind=5)
            client.store_offset(stream, topic, 0, 1, behind - 1)
            read = [m[0] for m in poll(0, 2, kind=5).messages]
            expect(read == [behind, behind + 1], f"{durability}: next behind the loss: {read}")
    server.kill()  # a stop says with its status that partitions are fenced


# ---- signals -------------------------------------------------------------------------------------


def hang_up(disposition):
    """For `limits`: what this test was started with must not count."""
    return lambda: signal.signal(signal.SIGHUP, disposition)


@case
def signals_end_a_start_at_once(ctx):
    """Here it waits ten seconds for a port; the end is that by the signal itself."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            server = Server(
                ctx.server,
                ctx.work / f"data{len(ctx.servers)}",
                shards=SHARDS,
                environment={"IGGY_TCP_ADDRESS": address},
                limits=hang_up(signal.SIG_DFL),
            )
            ctx.servers.append(server)
            server.spawn()
            time.sleep(2)
            server.check_alive()
            began = time.monotonic()
            server.process.send_signal(number)
            status = server.process.wait(30)
            took = time.monotonic() - began
            expect(status == -number, f"{number.name}: status {status}")
            expect(took < 3, f"{number.name} took {took:.1f} s")
            report = server.sanitizer_report()
            expect(report is None, f"{number.name}: {report}")


@case
def a_second_signal_ends_a_stop(ctx):
    """One line, status 1, and nothing acknowledged is lost."""
    server = Server(ctx.server, ctx.work / f"data{len(ctx.servers)}", shards=SHARDS)
    ctx.servers.append(server)
    server.start()
    batch = build_batch([b"x" * 1000] * 10, ORIGIN)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server.address).login()) for _ in range(10)]
        stream = clients[0].create_stream("s")
        topic = clients[0].create_topic(stream, "t", 10, durability="persisted")
        for partition in range(10):
            clients[partition].send(stream, topic, partition, batch)
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGINT)
        began = time.monotonic()
        status = server.process.wait(30)
        took = time.monotonic() - began
    expect(status == 1, f"status {status}: {server.log_tail(5)}")
    expect(took < 3, f"it took {took:.1f} s")
    expect("one more signal" in server.log_tail(), f"it does not say why: {server.log_tail(5)}")
    server.start()
    with Client(server.address).login() as client:
        for partition in range(10):
            got = client.poll(stream, topic, partition, 0, 10)
            expect(len(got.messages) == 10, f"partition {partition} has {len(got.messages)} messages")
    server.stop()


@case
def a_hang_up_is_a_stop(ctx):
    """The terminal closes: flushed as by SIGTERM. Under nohup it goes on."""
    server = Server(ctx.server, ctx.work / f"data{len(ctx.servers)}", shards=SHARDS, limits=hang_up(signal.SIG_DFL))
    ctx.servers.append(server)
    server.start()
    server.process.send_signal(signal.SIGHUP)
    status = server.process.wait(30)
    expect(status == 0, f"status {status}: {server.log_tail(5)}")
    server.limits = hang_up(signal.SIG_IGN)
    server.start()
    server.process.send_signal(signal.SIGHUP)
    time.sleep(1)
    server.check_alive()
    with Client(server.address).login() as client:
        client.ping()
    server.stop()


# ---- what clients cannot take away ---------------------------------------------------------------


@case
def stop_does_not_wait_for_logins(ctx):
    """A queue of password hashes is not worked through by a server that was told to stop."""
    server = Server(ctx.server, ctx.work / f"data{len(ctx.servers)}", shards=SHARDS)
    ctx.servers.append(server)
    server.start()
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            client = stack.enter_context(Client(server.address))
            client.post(OP_REGISTER, client.login_body("iggy", "not it"))
        began = time.monotonic()
        server.stop(30)
        took = time.monotonic() - began
        expect(took < 5, f"SIGTERM took {took:.1f} s")


@case
def logins_leave_the_loops_alone(ctx):
    """100 logins at once: every password is hashed on the offload thread, no turn of a loop waits for one."""
    logins = 100

    def offload_seconds(server):
        for task in Path(f"/proc/{server.process.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == "offload":
                return int((task / "schedstat").read_text().split()[0]) / 1e9
        raise Wrong("there is no offload thread")

    def turns_above(before, after, seconds):
        """Of all shards. The bucket that holds the limit counts as below it."""
        count = 0
        for shard in range(SHARDS):
            labels = f'shard="{shard}"'
            name = f"galgo_loop_turn_seconds_bucket{{{labels},le="
            limits = [key for key in after if key.startswith(name) and float(key[len(name) + 1 : -2]) >= seconds]
            within = min(limits, key=lambda key: float(key[len(name) + 1 : -2]))
            count += grown(before, after, f"galgo_loop_turn_seconds_count{{{labels}}}") - grown(before, after, within)
        return count

    with running(ctx) as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server.address)) for _ in range(logins)]
        before, hashing = server.metrics(), offload_seconds(server)
        for client in clients:
            client.post(OP_REGISTER, client.login_body("iggy", "iggy"))
        for client in clients:
            client.take().payload()  # raises unless it is logged in
        after, hashing = server.metrics(), offload_seconds(server) - hashing
        a_hash = hashing / logins
        turns = sum(grown(before, after, f'galgo_loop_turn_seconds_sum{{shard="{n}"}}') for n in range(SHARDS))
        long_turns = turns_above(before, after, a_hash / 2)
        print(
            f"   {logins} logins: offload thread {hashing:.2f} s, {a_hash * 1e3:.1f} ms each; loops {turns:.3f} s, "
            f"turns of half a hash or longer: {long_turns:.0f}"
        )
        expect(a_hash > 0.002, f"a login took the offload thread {a_hash * 1e3:.3f} ms: not argon2")
        # The kernel may take the core away from a loop, whose turn is long then: a few, not one a login.
        expect(long_turns <= logins / 20, f"{long_turns} turns of {a_hash / 2 * 1e3:.1f} ms or longer")
        expect(turns < hashing / 4, f"the loops took {turns:.3f} s, the hashes {hashing:.3f} s")


@case
def idle_connections_leave_descriptors_for_storage(ctx):
    """128 descriptors, more connections than that: topics are written, read and created, health answers."""

    def few_descriptors():
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))

    batch = build_batch([bytes(6000)] * 10, ORIGIN)
    with running(ctx, limits=few_descriptors) as server, contextlib.ExitStack() as stack:
        client = stack.enter_context(Client(server.address).login())
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "before", 2)
        for _ in range(150):
            stack.enter_context(Client(server.address))
        for topic in (topic, client.create_topic(stream, "meanwhile", 2)):
            for partition in (0, 1):
                for _ in range(40):  # beyond what is kept in memory: segments are made and written
                    client.send(stream, topic, partition, batch)
                got = client.poll(stream, topic, partition, 0, 1)
                expect(len(got.messages) == 1, f"polled {len(got.messages)}")
        expect(server.http("/healthz")[0] == 200, "health does not answer 200")


# ---- HTTP ----------------------------------------------------------------------------------------


@case
def cors_is_as_configured(ctx):
    allow = "access-control-allow-origin"
    with running(ctx) as server:
        status, headers, _ = server.http("/ping", Origin="http://a.example")
        expect((status, headers[allow]) == (200, "*"), f"by default: {status}, {headers[allow]}")
    configured = {"IGGY_HTTP_CORS_ALLOWED_ORIGINS": "[http://a.example]", "IGGY_HTTP_CORS_ALLOWED_METHODS": "[GET]"}
    with running(ctx, environment=configured) as server:
        for origin, answer in (("http://a.example", "http://a.example"), ("http://b.example", None)):
            _, headers, _ = server.http("/ping", Origin=origin)
            expect(headers[allow] == answer, f"{origin}: {headers[allow]}")
        _, headers, _ = server.http(
            "/ping", "OPTIONS", **{"Origin": "http://a.example", "Access-Control-Request-Method": "GET"}
        )
        expect(headers["access-control-allow-methods"] == "GET", f"preflight: {headers}")
    with running(ctx, environment={"IGGY_HTTP_CORS_ENABLED": "false"}) as server:
        _, headers, _ = server.http("/ping", Origin="http://a.example")
        expect(headers[allow] is None, f"switched off: {headers[allow]}")


# ---- the runner ----------------------------------------------------------------------------------


def parse_arguments():
    parser = argparse.ArgumentParser(description="what the whole server promises about itself")
    parser.error = lambda message: (print(f"node_test: {message}", file=sys.stderr), sys.exit(1))
    parser.add_argument("--server", required=True, help="the galgo-server binary")
    parser.add_argument("--work", type=Path, default=None, help="folder for data and logs; default: temporary")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(c.__name__ for c in CASES))
    arguments = parser.parse_args()
    if not os.access(arguments.server, os.X_OK):
        parser.error(f"no server at {arguments.server}. Run: ./x build")
    known = {function.__name__: function for function in CASES}
    for name in arguments.cases:
        if name not in known:
            parser.error(f"no case {name}")
    arguments.cases = [known[name] for name in arguments.cases] or CASES
    return arguments


def main():
    ctx = parse_arguments()
    if ctx.work is not None:
        ctx.work.mkdir(parents=True, exist_ok=True)
    ctx.work = Path(tempfile.mkdtemp(prefix="galgo-node.", dir=ctx.work))
    ctx.servers = []
    passed, failed, status = 0, [], 0
    for function in ctx.cases:
        began = time.monotonic()
        try:
            function(ctx)
            print(f"ok   {function.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
            passed += 1
        except (ServerFailure, Wrong, ServerError, ValueError, OSError) as fault:
            failed.append(function.__name__)
            status = 100 if isinstance(fault, ServerFailure) else status or 102
            print(f"FAIL {function.__name__}: {type(fault).__name__}: {fault}", flush=True)
            if ctx.servers:
                print(f"---- last lines of its server\n{ctx.servers[-1].log_tail(20)}\n----")
        finally:
            for server in ctx.servers:
                server.end()
    if failed:
        print(f"kept: {ctx.work}\nagain: python3 tests/blackbox/node_test.py --server {ctx.server} {' '.join(failed)}")
    else:
        shutil.rmtree(ctx.work)
    print(f"node: {passed} passed, {len(failed)} failed")
    return status


if __name__ == "__main__":
    sys.exit(main())
