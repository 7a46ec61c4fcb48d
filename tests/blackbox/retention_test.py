#!/usr/bin/env python3
"""What goes and what stays: expiry, deleted segments, purges, and the consumers that hold data back.

    tests/blackbox/retention_test.py --server BIN [--work DIR] [CASE...]

Exit status: 0 fine, 1 usage, 100 the server crashed or did not start, 102 a wrong answer.
The sizes are those of public bug reports; each case names its own.
"""

import contextlib
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
sys.dont_write_bytecode = True

from cases import Cases, expect, expect_equal, expect_error  # noqa: E402
from galgo_client import (  # noqa: E402
    GET_STATS,
    GET_STREAM,
    OP_CREATE_GROUP,
    OP_DELETE_SEGMENTS,
    Client,
    ServerError,
    build_batch,
    identifier,
    str8,
)

ORIGIN = 1_700_000_000_000_000
MIB = 1 << 20
EIGHTH = 128 << 10  # eight messages of that size fill a segment of 1 MiB
OFFSET, TIMESTAMP, FIRST, LAST, NEXT = 1, 2, 3, 4, 5

CASES = Cases(__file__, "what retention takes and what it leaves")
case = CASES.case


def running(ctx, interval="1s"):
    return ctx.running(environment={"IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": interval})


def fill(client, topic, count, size=EIGHTH, partition=0):
    """One message a batch; the payload begins with its number in the partition."""
    base = None
    for index in range(count):
        payload = struct.pack("<Q", index).ljust(size, b"x")
        base = client.send("s", topic, partition, build_batch([payload], ORIGIN))
    return base


def three_segments(client, topic="t", **options):
    """25 messages: 0..7, 8..15 and 16..23 in sealed segments, 24 behind them."""
    with contextlib.suppress(ServerError):
        client.create_stream("s")
    client.create_topic("s", topic, 1, segment_size=MIB, **options)
    expect_equal(fill(client, topic, 25), 24, "the last offset")
    expect_equal(client.partitions("s", topic)[0][1:], (4, 24, 25), "segments, offset, messages")


def first_of(client, topic="t", kind=FIRST, offset=0, count=2, consumer=1):
    polled = client.poll("s", topic, 0, offset, count, kind=kind, consumer=consumer)
    return polled.messages[0][0] if polled.messages else None


def eventually(look, what, seconds=15.0):
    end = time.monotonic() + seconds
    while not look():
        expect(time.monotonic() < end, f"not within {seconds:.0f} s: {what}")
        time.sleep(0.1)


def restarted(server):
    server.stop()
    server.start()
    return Client(server.address).login()


@case
def expired_segments_go_without_a_restart(ctx):
    """iggy issues 2629, 2670: also those that were written after the start."""
    with running(ctx) as server:
        with Client(server.address).login() as client:
            client.create_stream("s")
            client.create_topic("s", "t", 1, segment_size=MIB, message_expiry=10_000_000)
            last = fill(client, "t", 80, size=64 << 10)  # 5 MiB
            segments = client.partitions("s", "t")[0][1]
            expect(segments >= 5, f"{segments} segments")
            expect_equal(first_of(client), 0, "first")
            time.sleep(15)
            end = fill(client, "t", 32, size=64 << 10)  # 2 MiB
            expect_equal(end, last + 32, "the offset behind them")
            first = first_of(client)
            expect(first is not None and 0 < first <= last + 1, f"first is {first}")
            _, kept, current, messages = client.partitions("s", "t")[0]
            expect_equal(current, end, "current offset")
            expect_equal(messages, end + 1 - first, "messages")
            expect(kept < segments, f"{kept} segments are left")
            below = client.poll("s", "t", 0, 0, 1)
            expect_equal(below.messages[0][0], first, "a poll below what is retained")
            # It is quiet now: all of it goes, and the next offset stays.
            eventually(lambda: client.partitions("s", "t")[0][3] == 0, "the quiet topic is empty", 25)
            expect_equal(client.partitions("s", "t")[0][1:3], (1, end), "segments and offset of the empty one")
            expect_equal(first_of(client), None, "first of the empty one")
        with restarted(server) as client:
            expect_equal(client.partitions("s", "t")[0][1:], (1, end, 0), "the same after a restart")
            expect_equal(fill(client, "t", 1), end + 1, "the next offset")
            expect_equal(first_of(client), end + 1, "first")


@case
def an_expiry_counts_from_its_update_on(ctx):
    """It is taken from the topic when the decision is made."""
    with running(ctx) as server, Client(server.address).login() as client:
        three_segments(client)
        time.sleep(3)
        expect_equal(first_of(client), 0, "first without an expiry")
        client.update_topic("s", "t", "t", message_expiry=1_000_000)
        eventually(lambda: client.partitions("s", "t")[0][3] == 0, "all is expired")
        expect_equal(client.partitions("s", "t")[0][2], 24, "current offset")


@case
def a_topic_keeps_to_its_size(ctx):
    with running(ctx) as server, Client(server.address).login() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 1, segment_size=MIB, max_topic_size=3 * MIB)
        fill(client, "t", 8 * 10 + 1)
        eventually(lambda: client.partitions("s", "t")[0][3] == 2 * 8 + 1, "two sealed segments are left")
        expect_equal(first_of(client), 64, "first")
        time.sleep(2)
        expect_equal(first_of(client), 64, "and it stays")


@case
def a_deleted_segment_changes_no_offset(ctx):
    """iggy issue 2798: the stored offset and the current one are what they were."""
    with running(ctx) as server, Client(server.address).login() as client:
        three_segments(client)
        client.store_offset("s", "t", 0, 9, 20)
        client.delete_segments("s", "t", 0, 1)
        expect_equal(client.offsets("s", "t", 0, 9), (24, 20), "current and stored offset")
        expect_equal(first_of(client), 8, "first")
        expect_equal(client.partitions("s", "t")[0][1:], (3, 24, 17), "segments, offset, messages")


@case
def every_strategy_begins_with_what_is_retained(ctx):
    """iggy issues 1828, 3525: none is an error, none is empty."""
    with running(ctx) as server:
        client = Client(server.address).login()
        three_segments(client)
        client.delete_segments("s", "t", 0, 1)
        client.store_offset("s", "t", 0, 3, 3)
        for _ in range(2):
            with client:
                expect_equal(first_of(client, kind=NEXT, consumer=3), 8, "next behind a stored 3")
                expect_equal(first_of(client, kind=NEXT, consumer=4), 8, "next of a new consumer")
                expect_equal(first_of(client, kind=OFFSET), 8, "offset 0")
                expect_equal(first_of(client, kind=FIRST), 8, "first")
                expect_equal(first_of(client, kind=TIMESTAMP), 8, "timestamp 0")
                expect_equal(first_of(client, kind=LAST, count=25), 8, "the last 25")
            client = restarted(server)
        client.close()


@case
def a_stored_offset_holds_data_back(ctx):
    """0..7 stays until the smallest stored offset is 7; a later deletion waits for another consumer."""
    with running(ctx) as server:
        with Client(server.address).login() as client:
            three_segments(client)
            client.store_offset("s", "t", 0, 1, 3)
            client.delete_segments("s", "t", 0, 1)
            time.sleep(2.5)
            expect_equal(first_of(client, consumer=5), 0, "first while 3 is stored")
            client.store_offset("s", "t", 0, 1, 6)
            time.sleep(2.5)
            expect_equal(first_of(client, consumer=5), 0, "first while 6 is stored")
            held = sum(v for k, v in server.metrics().items() if k.startswith("galgo_retention_held_back_bytes"))
            expect(held > MIB, f"{held} bytes are held back")
            expect("stay because of stored offsets" in server.log_tail(1000), "the log does not tell")
        with restarted(server) as client:  # what was acknowledged is not forgotten
            expect_equal(first_of(client, consumer=5), 0, "first after a restart")
            client.store_offset("s", "t", 0, 1, 7)
            eventually(lambda: first_of(client, consumer=5) == 8, "0..7 is gone")
            client.store_offset("s", "t", 0, 2, 2)
            client.delete_offset("s", "t", 0, 1)
            client.delete_segments("s", "t", 0, 1)
            time.sleep(2.5)
            expect_equal(first_of(client, consumer=5), 8, "first while d has 2")
            client.delete_offset("s", "t", 0, 2)
            eventually(lambda: first_of(client, consumer=5) == 16, "8..15 is gone")
            eventually(
                lambda: all(v == 0 for k, v in server.metrics().items() if k.startswith("galgo_retention_held")),
                "nothing is held back",
            )


@case
def what_delete_segments_answers(ctx):
    with running(ctx) as server, Client(server.address).login() as client:
        three_segments(client)
        for count, first in ((0, 0), (2, 16), (1000, 24), (1, 24)):
            reply = client.ask(OP_DELETE_SEGMENTS, client.delete_segments_body("s", "t", 0, count))
            expect_equal((reply.operation, reply.status, reply.body.hex()), (68, 0, "00000000"), f"answer for {count}")
            expect_equal(first_of(client), first, f"first after {count}")
        expect_equal(client.partitions("s", "t")[0][1:], (1, 24, 1), "segments, offset, messages")

        def refusal(body):
            reply = client.ask(OP_DELETE_SEGMENTS, body)
            expect_equal((reply.operation, reply.status, len(reply.body)), (68, 0, 12), "a refusal")
            return struct.unpack("<III", reply.body)

        expect_equal(refusal(client.delete_segments_body("none", "t", 0, 1)), (1, 0, 1009), "no stream")
        expect_equal(refusal(client.delete_segments_body("s", "none", 0, 1)), (1, 0, 2010), "no topic")
        expect_equal(refusal(client.delete_segments_body("s", "t", 7, 1)), (1, 0, 3007), "no partition")
        expect_equal(client.ask(OP_DELETE_SEGMENTS, b"\x01").status, 3, "no request")
        body = str8("reader") + str8("password") + b"\x01" + b"\x00" + b""
        client.call(141, body)
        with Client(server.address) as reader:
            reader.login("reader", "password")
            expect_error(41, "without the right", reader.delete_segments, "s", "t", 0, 1)


@case
def a_purge_is_seen_at_once(ctx):
    """iggy issue 2736: by the stream, by the statistics, and by whoever asked for it."""

    def figures(client):
        body = client.read(GET_STREAM, identifier("s"))
        size, messages = struct.unpack_from("<QQ", body, 16)
        stats = client.read(GET_STATS)
        return size, messages, struct.unpack_from("<Q", stats, 92)[0]

    with running(ctx) as server:
        with Client(server.address).login() as client:
            client.create_stream("s")
            for topic, count in (("t1", 10), ("t2", 7)):
                client.create_topic("s", topic, 1)
                fill(client, topic, count, size=100)
            group = identifier("s") + identifier("t1") + str8("g")
            client.call(OP_CREATE_GROUP, group)
            client.store_offset("s", "t1", 0, 1, 5)
            size, messages, counted = figures(client)
            expect_equal((messages, counted), (17, 17), "messages before")
            client.purge_topic("s", "t1")
            now = figures(client)
            expect_equal(now[1:], (7, 7), "messages of the stream, and of the statistics")
            expect_equal(now[0] * 17, size * 7, "bytes of the stream")
            expect_equal(client.partitions("s", "t1")[0][2:], (0, 0), "offset and messages of t1")
            expect_equal(client.stored_offset("s", "t1", 0, 1), None, "stored offset")
            expect_equal(first_of(client, "t1"), None, "first of t1")
            expect_equal(fill(client, "t1", 1, size=100), 0, "the next offset of t1")
            expect_equal(client.partitions("s", "t2")[0][2:], (6, 7), "offset and messages of t2")
        with restarted(server) as client:
            expect_equal(figures(client)[1], 8, "messages after a restart")
            expect_equal(client.stored_offset("s", "t1", 0, 1), None, "stored offset after a restart")


@case
def what_was_sent_behind_a_purge_stays(ctx):
    """iggy issue 3828: also after a restart; a partition that is not there is 3007."""
    with running(ctx) as server:
        with Client(server.address).login() as client:
            client.create_stream("s")
            client.create_topic("s", "t", 1)
            client.send("s", "t", 0, build_batch([b"old"] * 20, ORIGIN))
            client.purge_topic("s", "t")
            expect_equal(client.send("s", "t", 0, build_batch([b"new"] * 3, ORIGIN)), 0, "the offset behind the purge")
        with restarted(server) as client:
            polled = client.poll("s", "t", 0, 0, 100, kind=FIRST, with_payload=True)
            messages = [(offset, payload) for offset, _, payload in polled.messages]
            expect_equal(messages, [(0, b"new"), (1, b"new"), (2, b"new")], "messages")
            for ask in (
                lambda: client.poll("s", "t", 7, 0, 1),
                lambda: client.offsets("s", "t", 7, 1),
            ):
                expect_error(3007, "partition 7", ask)


@case
def polls_beside_retention_never_fail(ctx):
    """A reader that is always behind what is retained gets what there is, in order."""
    with running(ctx, interval="100ms") as server, Client(server.address).login() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 1, segment_size=MIB, max_topic_size=2 * MIB)
        with Client(server.address).login() as reader:
            at = 0
            for index in range(400):
                client.send("s", "t", 0, build_batch([struct.pack("<Q", index).ljust(EIGHTH, b"x")], ORIGIN))
                if index % 10 == 9:
                    polled = reader.poll("s", "t", 0, 0, 30, with_payload=True)
                    expect(polled.messages, "an empty poll")
                    offsets = [offset for offset, _, _ in polled.messages]
                    expect(offsets[0] >= at, f"{offsets[0]} came back behind {at}")
                    expect_equal(offsets, sorted(set(offsets)), "order")
                    for offset, _, payload in polled.messages:
                        expect_equal(struct.unpack_from("<Q", payload)[0], offset, "payload")
                    at = offsets[0]
            expect(at > 0, "nothing was removed")


if __name__ == "__main__":
    sys.exit(CASES.main())
