#!/usr/bin/env python3
"""What made streaming servers lose, repeat or refuse messages in public, with the right values, black box.

Each case names the report it comes from ("iggy 2958" is issue or pull request 2958 of apache/iggy).

    tests/blackbox/storage_cases_test.py --server BIN [--work DIR] [CASE...]

Exit status: 0 fine, 1 usage, 100 the server crashed, hung or did not start, 102 a wrong answer.
"""

import contextlib
import os
import struct
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
sys.dont_write_bytecode = True

from cases import Cases, expect, expect_equal, expect_error, wait_for  # noqa: E402
from galgo_client import (  # noqa: E402
    BY_OFFSET,
    BY_TIME,
    CONSUMER_GROUP,
    FIRST,
    LAST,
    NEXT,
    OP_CREATE_GROUP,
    OP_CREATE_TOPIC,
    OP_JOIN_GROUP,
    OP_PURGE_TOPIC,
    Client,
    ServerError,
    build_batch,
    identifier,
    str8,
)

ORIGIN = 1_700_000_000_000_000
MIB = 1 << 20
INVALID_OFFSET, TOO_MANY_OFFSETS, NO_PARTITION = 4100, 3024, 3007
INDEX_ENTRY = 24

CASES = Cases(__file__, "public bug reports about storage")
case = CASES.case


def one(payload):
    return build_batch([payload], ORIGIN)


def read_all(client, stream, topic, partition=0, count=1000, with_payload=True):
    """All messages from offset 0 on as (offset, checksum, payload), and when the server took each."""
    messages, times = [], []
    while True:
        polled = client.poll(stream, topic, partition, messages[-1][0] + 1 if messages else 0, count, with_payload)
        if not polled.messages:
            return messages, times
        messages += polled.messages
        times += polled.times


def expect_messages(client, stream, topic, payloads, what):
    """Offsets from 0 on without a hole, and these payloads."""
    messages, _ = read_all(client, stream, topic)
    expect_equal([m[0] for m in messages], list(range(len(payloads))), f"{what}: offsets")
    wrong = [m[0] for m, payload in zip(messages, payloads) if m[2] != payload]
    expect(not wrong, f"{what}: other payloads at {wrong[:10]}")


def folder(server, stream, topic, partition=0):
    return server.path / f"streams/{stream}/topics/{topic}/partitions/{partition}"


def segment_files(server, stream, topic, ending="log"):
    return sorted(folder(server, stream, topic).glob(f"*.{ending}"))


def in_threads(*functions, seconds=60):
    """Runs them side by side; the first fault of any is raised here."""
    faults = []

    def guarded(function):
        try:
            function()
        except Exception as fault:  # of whatever kind: it is raised below
            faults.append(fault)

    threads = [threading.Thread(target=guarded, args=(function,), daemon=True) for function in functions]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.1, deadline - time.monotonic()))
    if faults:
        raise faults[0]
    expect(not any(thread.is_alive() for thread in threads), f"not done after {seconds} s")


def settled(what, seconds=3, most=30):
    """The value of `what()` once it stays for so long: the files of an idle log are closed after a while."""
    began = since = time.monotonic()
    value = what()
    while time.monotonic() - since < seconds:
        expect(time.monotonic() - began < most, f"{value} and other values within {most} s")
        time.sleep(0.1)
        if (now := what()) != value:
            value, since = now, time.monotonic()
    return value


# ---- producing and consuming ---------------------------------------------------------------------


@case
def a_consumer_meets_a_producer_after_a_restart(ctx):
    """iggy 2958: `next` with auto-commit, one by one, across the border between old and new messages."""
    server = ctx.server()
    server.start()
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 1)
        for number in range(10):
            client.send(stream, topic, 0, one(b"m%d" % number))
    server.stop()
    server.start()
    received = []

    def produce():
        with Client(server.address).login() as client:
            for number in range(10, 30):
                client.send(stream, topic, 0, one(b"m%d" % number))

    def consume():
        deadline = time.monotonic() + 20
        with Client(server.address).login() as client:
            while len(received) < 30 and time.monotonic() < deadline:
                polled = client.poll(stream, topic, 0, 0, 1, with_payload=True, kind=NEXT, auto_commit=1)
                received.extend(message[2] for message in polled.messages)
            time.sleep(0.2)  # one more than there are would come now
            polled = client.poll(stream, topic, 0, 0, 1, with_payload=True, kind=NEXT, auto_commit=1)
            received.extend(message[2] for message in polled.messages)

    in_threads(produce, consume)
    expect_equal(received, [b"m%d" % number for number in range(30)], "the consumer received")
    server.stop()


@case
def eight_producers_on_small_segments(ctx):
    """iggy 2572, 2588: 8 x 200 messages of 64 KiB at once through segments of 1 MiB."""
    connections, each = 8, 200
    server = ctx.server()
    server.start()
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 1, segment_size=MIB, messages_required_to_save=1)
        confirmed = {}

        def produce(connection):
            with Client(server.address).login() as producer:
                for number in range(each):
                    batch = one(struct.pack("<II", connection, number) * (65536 // 8))
                    confirmed[producer.send(stream, topic, 0, batch)] = batch.checksums[0]

        in_threads(*(lambda connection=connection: produce(connection) for connection in range(connections)))
        total = connections * each
        expect_equal(sorted(confirmed), list(range(total)), "confirmed offsets")
    for what in ("before the restart", "after the restart"):
        with Client(server.address).login() as client:
            messages, _ = read_all(client, stream, topic, count=64, with_payload=False)
            expect_equal([m[0] for m in messages], list(range(total)), f"{what}: offsets")
            wrong = [m[0] for m in messages if confirmed[m[0]] != m[1]]
            expect(not wrong, f"{what}: other messages at {wrong[:10]}")
            segments = client.partitions(stream, topic)[0][1]
            expect(segments >= 90, f"{what}: {segments} segments")
        server.stop()
        if what == "before the restart":
            server.start()


@case
def a_stop_writes_what_no_threshold_did(ctx):
    """iggy 2581: 3000 batches of one byte below every save threshold, then an orderly stop."""
    server = ctx.server()
    server.start()
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(
            stream, "t", 1, messages_required_to_save=5000, size_of_messages_required_to_save=1 << 30
        )
        payloads = [bytes([number % 251]) for number in range(3000)]
        for first in range(0, 3000, 100):  # pipelined: 3000 round trips take long
            for payload in payloads[first : first + 100]:
                client.post_batch(stream, topic, 0, one(payload))
            for _ in range(100):
                client.take().payload()
    server.stop()
    server.start()
    with Client(server.address).login() as client:
        expect_messages(client, stream, topic, payloads, "after the stop")
    server.stop()


@case
def the_largest_message_in_the_smallest_segment(ctx):
    """osiris 170: a payload far above the segment size rolls once, not for ever."""
    with ctx.running() as server, Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 1, segment_size=MIB)
        large = one(ctx.rng.randbytes(MIB) * 61 + bytes(64_000_000 - 61 * MIB))
        expect_equal(client.send(stream, topic, 0, large), 0, "offset of the large message")
        small = [b"small %d" % number for number in range(10)]
        for offset, payload in enumerate(small, 1):
            expect_equal(client.send(stream, topic, 0, one(payload)), offset, "offset of a small message")
        for restart in (False, True):
            if restart:
                server.stop()
                server.start()
                client = Client(server.address).login()
            messages, _ = read_all(client, stream, topic)
            expect_equal([m[0] for m in messages], list(range(11)), "offsets")
            expect(messages[0][1] == large.checksums[0], "the large message is another one")
            expect_equal([m[2] for m in messages[1:]], small, "the small messages")
            segments = client.partitions(stream, topic)[0][1]
            expect(1 <= segments <= 2, f"{segments} segments")
        client.close()


# ---- reading -------------------------------------------------------------------------------------


@case
def polls_by_time_are_exact(ctx):
    """iggy 1560, 1570, 3828: at the time of a message it is the first one, a microsecond later it is not."""
    server = ctx.server()
    server.start()
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 1)
        client.send(stream, topic, 0, one(b"m0"))
        time.sleep(0.005)
        client.send(stream, topic, 0, one(b"m1"))
    for what in ("before any flush", "after a restart"):
        with Client(server.address).login() as client:
            t0, t1 = read_all(client, stream, topic)[1]
            expect(t1 - t0 >= 5000, f"{what}: times {t0} and {t1}")
            for when, wanted in ((t0, [b"m0", b"m1"]), (t0 + 1, [b"m1"]), (t1, [b"m1"]), (t1 + 1, [])):
                polled = client.poll(stream, topic, 0, when, 10, with_payload=True, kind=BY_TIME)
                expect_equal([m[2] for m in polled.messages], wanted, f"{what}: polled at t0+{when - t0}")
                expect_equal(polled.current_offset, 1, f"{what}: current offset")
        server.stop()
        if what == "before any flush":
            server.start()


def check_strategies(client, stream, topic, sent, times, borders, what):
    """Every strategy, with counts of 1, 7 and 1000, at the begin, around a border of segments, at the end."""
    total = len(sent)
    first_at = {}
    for offset, when in enumerate(times):
        first_at.setdefault(when, offset)
    border = borders[1]
    for count in (1, 7, 1000):

        def polled(value, kind, wanted, name):
            got = client.poll(stream, topic, 0, value, count, kind=kind, consumer=7)
            where = f"{what}: {name} {value} count {count}"
            expect_equal([m[0] for m in got.messages], list(wanted), where)
            expect(all(sent[m[0]] == m[1] for m in got.messages), f"{where}: another message")
            expect_equal(got.current_offset, total - 1, f"{where}: current offset")

        def from_offset(start):
            return range(start, min(start + count, total))

        for start in (0, border - 1, border, border + 1, total - 1, total):
            polled(start, BY_OFFSET, from_offset(start), "offset")
            if start:
                client.store_offset(stream, topic, 0, 7, start - 1)
            elif client.stored_offset(stream, topic, 0, 7) is not None:
                client.delete_offset(stream, topic, 0, 7)
            polled(0, NEXT, from_offset(start), f"next of {start}")
            if start < total:
                when = times[start]
                polled(when, BY_TIME, from_offset(first_at[when]), "time")
                behind = next((at for at in range(start, total) if times[at] > when), total)
                polled(when + 1, BY_TIME, from_offset(behind), "time")
        polled(0, FIRST, from_offset(0), "first")
        polled(0, LAST, range(max(0, total - count), total), "last")


def index_entries(path):
    """(offset, time, position) of each; the position has 32 bits wherever a segment ends."""
    data = path.read_bytes()
    expect(len(data) % INDEX_ENTRY == 0, f"{path.name}: {len(data)} bytes are no whole entries")
    return [struct.unpack_from("<QQI", data, at) for at in range(0, len(data), INDEX_ENTRY)]


def check_index(log, index):
    """Each entry names a batch that is there, and none is there twice. The number of entries."""
    entries, data = index_entries(index), log.read_bytes()
    for before, after in zip(entries, entries[1:]):
        expect(before[0] < after[0] and before[2] < after[2], f"{index.name}: {before} and then {after}")
    for offset, when, position in entries:
        expect(position + 52 <= len(data), f"{index.name}: entry at {position} of {len(data)}")
        stands = struct.unpack_from("<QQ", data, position + 8)
        expect_equal((offset, when), stands, f"{index.name}: entry at {position}")
    return len(entries)


@case
def every_strategy_across_borders_and_restarts(ctx):
    """iggy 1887, 753, 818: 3 MiB in segments of 1 MiB, flushed at once or late, stopped or killed."""
    for end in ("stop", "kill"):
        server = ctx.server()
        server.start()
        with Client(server.address).login() as client:
            stream = client.create_stream("s")
            topics = {
                threshold: client.create_topic(
                    stream, f"t{threshold}", 1, segment_size=MIB, messages_required_to_save=threshold
                )
                for threshold in (1, 1000)
            }
            sent = {topic: [] for topic in topics.values()}
            for topic, checksums in sent.items():
                while len(checksums) < 3 * 1024:
                    size = min(ctx.rng.choice((1, 1, 5, 20, 48)), 3 * 1024 - len(checksums))
                    batch = build_batch([ctx.rng.randbytes(1024 - 48) for _ in range(size)], ORIGIN)
                    expect_equal(client.send(stream, topic, 0, batch), len(checksums), "confirmed offset")
                    checksums += batch.checksums
            times = {topic: read_all(client, stream, topic, with_payload=False)[1] for topic in sent}
        meaning = {}
        for start in range(4):
            if start:
                server.start()
            with Client(server.address).login() as client:
                for threshold, topic in topics.items():
                    what = f"threshold {threshold}, {end}, start {start}"
                    borders = [int(path.stem) for path in segment_files(server, stream, topic)]
                    expect(len(borders) >= 3, f"{what}: segments {borders}")
                    check_strategies(client, stream, topic, sent[topic], times[topic], borders, what)
            if end == "kill" and start < 2:
                server.kill()
                continue
            server.stop()
            for topic in sent:
                logs, indexes = (segment_files(server, stream, topic, ending) for ending in ("log", "index"))
                entries = sum(check_index(log, index) for log, index in zip(logs, indexes, strict=True))
                expect(entries > 4 * len(logs), f"{entries} index entries of {len(logs)} segments")
                files = {path.name: path.read_bytes() for path in logs + indexes}
                if start == 3:
                    changed = [name for name, data in meaning[topic].items() if files.get(name) != data]
                    expect(not changed and len(files) == len(meaning[topic]), f"a start more changed {changed}")
                meaning[topic] = files


# ---- stored offsets ------------------------------------------------------------------------------


@case
def offsets_that_cannot_be_stored(ctx):
    """iggy 2730: only offsets of messages that are there; what was stored stays. A consumer and a group."""
    with ctx.running() as server, Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 1)
        where = identifier(stream) + identifier(topic)
        client.call(OP_CREATE_GROUP, where + str8("g"))
        client.call(OP_JOIN_GROUP, where + identifier("g"))
        consumers = {"a consumer": (1, {}), "a group": ("g", {"consumer_kind": CONSUMER_GROUP})}

        def store(consumer, offset):
            number, kind = consumer
            client.store_offset(stream, topic, 0, number, offset, **kind)

        for name, consumer in consumers.items():
            expect_error(INVALID_OFFSET, f"{name}: 0 of an empty partition", store, consumer, 0)
        for number in range(5):
            client.send(stream, topic, 0, one(b"m%d" % number))
        for name, consumer in consumers.items():
            store(consumer, 4)
            for offset in (5, 1000):
                expect_error(INVALID_OFFSET, f"{name}: {offset} of 5 messages", store, consumer, offset)
            number, kind = consumer
            expect_equal(client.stored_offset(stream, topic, 0, number, **kind), 4, f"{name}: stored")


TEN_OFFSETS = {"IGGY_PARTITION_CONSUMER_OFFSETS_MAX": "10"}


def consumers_of(client, stream, topic, most=20):
    """Which of the consumers 1 to `most` have stored an offset."""
    return {number for number in range(1, most + 1) if client.stored_offset(stream, topic, 0, number) is not None}


@case
def stored_offsets_are_bounded(ctx):
    """iggy 4063: the bound counts what is there, also after a delete and after a restart."""
    server = ctx.server(environment=TEN_OFFSETS)
    server.start()
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 1)
        client.send(stream, topic, 0, one(b"x"))
        for consumer in range(1, 11):
            client.store_offset(stream, topic, 0, consumer, 0)
        expect_error(TOO_MANY_OFFSETS, "the 11th", client.store_offset, stream, topic, 0, 11, 0)
        client.store_offset(stream, topic, 0, 10, 0)  # one that is there may move
        client.delete_offset(stream, topic, 0, 3)
        client.store_offset(stream, topic, 0, 11, 0)
        expect_error(TOO_MANY_OFFSETS, "the 11th after a delete", client.store_offset, stream, topic, 0, 3, 0)
    for end in (server.stop, server.kill):
        end()
        server.start()
        with Client(server.address).login() as client:
            expect_equal(consumers_of(client, stream, topic), {1, 2, *range(4, 12)}, f"after a {end.__name__}")
            expect_error(TOO_MANY_OFFSETS, "the 11th after a restart", client.store_offset, stream, topic, 0, 3, 0)
    server.stop()


@case
def stored_offsets_are_bounded_when_many_come_at_once(ctx):
    """16 consumers store for the first time while the disk is waited for: ten of them can."""
    with ctx.running(environment=TEN_OFFSETS) as server, contextlib.ExitStack() as stack:
        client, *crowd = (stack.enter_context(Client(server.address).login()) for _ in range(17))
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 1, consumer_offset_durability="persisted")
        client.send(stream, topic, 0, one(b"x"))
        codes = {}

        def store(connection, consumer):
            try:
                connection.store_offset(stream, topic, 0, consumer, 0)
            except ServerError as error:
                codes[consumer] = error.code

        in_threads(*(lambda c=c, n=n: store(c, n) for n, c in enumerate(crowd, 1)))
        expect_equal(sorted(codes.values()), [TOO_MANY_OFFSETS] * 6, "refusals of 16 at once")
        expect_equal(consumers_of(client, stream, topic), set(range(1, 17)) - codes.keys(), "stored")


# ---- purges and what is not there ----------------------------------------------------------------


@case
def a_purge_of_what_was_not_flushed(ctx):
    """iggy 3828: nothing of before comes back with a restart. And a partition that does not exist."""
    server = ctx.server()
    server.start()
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 1)
        for number in range(20):
            client.send(stream, topic, 0, one(b"old %d" % number))
        client.call(OP_PURGE_TOPIC, identifier(stream) + identifier(topic))
        new = [b"new %d" % number for number in range(3)]
        for payload in new:
            client.send(stream, topic, 0, one(payload))
    server.stop()
    server.start()
    with Client(server.address).login() as client:
        polled = client.poll(stream, topic, 0, 0, 100, with_payload=True, kind=FIRST)
        expect_equal([m[2] for m in polled.messages], new, "first")
        expect_messages(client, stream, topic, new, "after the restart")
        expect_error(NO_PARTITION, "a poll of partition 7", client.poll, stream, topic, 7, 0, 1)
        expect_error(NO_PARTITION, "the offset of partition 7", client.stored_offset, stream, topic, 7, 1)
    server.stop()


# ---- damage --------------------------------------------------------------------------------------


@case
def garbage_behind_a_log_and_in_its_index(ctx):
    """iggy 3946: what a crash may leave behind the last batch or entry is cut, and an index is made anew."""

    def append(path, data):
        with path.open("ab") as file:
            file.write(data)

    def zero_the_end(path):
        with path.open("r+b") as file:
            file.seek(-INDEX_ENTRY, os.SEEK_END)
            file.write(bytes(INDEX_ENTRY))

    damages = {
        "777 bytes behind the log": lambda log, index: append(log, b"\xaa" * 777),
        "10 bytes behind the index": lambda log, index: append(index, b"\xaa" * 10),
        "no index": lambda log, index: index.unlink(),
        "an index that ends with zeros": lambda log, index: zero_the_end(index),
    }
    server = ctx.server()
    server.start()
    sent, topics, times = {}, {}, {}

    def send(client, name, count):
        for _ in range(count):
            batch = one(ctx.rng.randbytes(9000))
            expect_equal(client.send(stream, topics[name], 0, batch), len(sent[name]), f"{name}: offset")
            sent[name] += batch.checksums

    def check(client, name, what):
        messages, taken = read_all(client, stream, topics[name])
        expect_equal([m[0] for m in messages], list(range(len(sent[name]))), f"{name}, {what}: offsets")
        expect([m[1] for m in messages] == sent[name], f"{name}, {what}: other messages")
        expect(taken[: len(times.get(name, ()))] == times.get(name, []), f"{name}, {what}: other times")
        times[name] = taken
        for offset, when in enumerate(taken):
            for value, kind in ((offset, BY_OFFSET), (when, BY_TIME)):
                first = client.poll(stream, topics[name], 0, value, 1, kind=kind).messages[0][0]
                expect_equal(first, offset, f"{name}, {what}: poll of kind {kind} at {value}")

    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        for name in damages:
            topics[name] = client.create_topic(stream, name, 1, messages_required_to_save=1)
            sent[name] = []
            send(client, name, 30)
            check(client, name, "before")
        for topic in topics.values():  # an entry is written after the sync of what it names
            wait_for(
                lambda topic=topic: [path.stat().st_size > 0 for path in segment_files(server, stream, topic, "index")],
                [True],
                f"topic {topic}: its index",
            )
    server.kill()
    for name, damage in damages.items():
        (log,), (index,) = (segment_files(server, stream, topics[name], ending) for ending in ("log", "index"))
        damage(log, index)
    for start, end in enumerate((server.stop, server.kill, server.stop)):
        server.start()
        with Client(server.address).login() as client:
            for name in damages:
                check(client, name, f"start {start}")
                if start == 0:
                    send(client, name, 5)
                    check(client, name, "with 5 more")
        end()
        for name, topic in topics.items():
            (log,), (index,) = (segment_files(server, stream, topic, ending) for ending in ("log", "index"))
            check_index(log, index)
            expect(b"\xaa" * 100 not in log.read_bytes(), f"{name}: the garbage is in {log.name}")


@case
def a_stop_names_the_last_batch(ctx):
    """What the last entry of an index names is known as stable: all of it after a stop, idle before or not."""
    server = ctx.server()
    server.start()
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topics = [
            client.create_topic(
                stream, f"{durability} {threshold}", 1, durability=durability, messages_required_to_save=threshold
            )
            for durability in ("replicated", "persisted")
            for threshold in (1, 1024)
        ]
    for idle in (0, 3):
        with Client(server.address).login() as client:
            for topic in topics:
                for _ in range(5):
                    client.send(stream, topic, 0, build_batch([ctx.rng.randbytes(5000)] * 5, ORIGIN))
        time.sleep(idle)  # the files of an idle log are closed
        server.stop()
        for topic in topics:
            (log,), (index,) = (segment_files(server, stream, topic, ending) for ending in ("log", "index"))
            check_index(log, index)
            position = index_entries(index)[-1][2]
            (length,) = struct.unpack_from("<Q", log.read_bytes(), position + 32)
            where = f"topic {topic}, {idle} s idle before the stop: end of what the last entry names"
            expect_equal(position + length, log.stat().st_size, where)
        server.start()
    server.stop()


@case
def confirmed_offsets_are_not_given_again(ctx):
    """iggy 3975: with everything at its default the confirmed messages survive kill -9."""
    server = ctx.server()
    server.start()
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        body = identifier(stream) + struct.pack("<I", 1) + str8("t")
        (topic,) = struct.unpack_from("<I", client.call(OP_CREATE_TOPIC, body))
        payloads = [b"m%d" % number for number in range(5)]
        confirmed = [client.send(stream, topic, 0, one(payload)) for payload in payloads]
        expect_equal(confirmed, list(range(5)), "confirmed offsets")
    server.kill()
    server.start()
    with Client(server.address).login() as client:
        expect_messages(client, stream, topic, payloads, "after kill -9")
        expect_equal(client.send(stream, topic, 0, one(b"m5")), 5, "the next offset")
    server.stop()


@case
def restarts_leave_nothing_behind(ctx):
    """redpanda 4057: 100 partitions with a message each; files and descriptors of ten restarts."""
    server = ctx.server()
    server.start()
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 100)
        for partition in range(100):
            client.send(stream, topic, partition, one(b"x"))
    files, descriptors = [], []
    for restart in range(10):
        server.stop()
        server.start()
        with Client(server.address).login() as client:
            for partition in range(100):
                expect_equal(len(client.poll(stream, topic, partition, 0, 10).messages), 1, f"partition {partition}")
            files.append({str(path.relative_to(server.path)) for path in server.path.rglob("*")})
            if restart in (0, 9):
                descriptors.append(settled(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd"))))
    server.stop()
    for restart, names in enumerate(files[1:], 1):
        expect_equal(len(names), len(files[0]), f"files after restart {restart}, {sorted(names ^ files[0])[:10]}")
    expect_equal(descriptors[1], descriptors[0], "descriptors after the last restart and the first")
    print(f"   {len(files[0])} files and folders, {descriptors[0]} descriptors")


if __name__ == "__main__":
    sys.exit(CASES.main())
