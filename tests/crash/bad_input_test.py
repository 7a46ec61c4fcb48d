#!/usr/bin/env python3
"""Broken, hostile and too much input against the real server, black box.

Every case talks on connections of its own while one well-behaved connection keeps sending and polling;
after each case the server must be up, without a sanitizer report, and that connection must go on.
Cases which need a server of their own (limits, full disk) start one.

    tests/crash/bad_input_test.py --server BIN [--seed N] [--work DIR] [CASE...]

Exit status: 0 fine, 1 usage, 100 the server crashed or did not start, 102 a wrong answer.
"""

import argparse
import contextlib
import os
import random
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
sys.dont_write_bytecode = True

import galgo_client as g  # noqa: E402
from galgo_client import Client, ServerError, build_batch, identifier, numeric, send_body, str8  # noqa: E402
from galgo_server import Server, ServerFailure  # noqa: E402

MAX_FRAME = 64 << 20
MAX_FRAME_BEFORE_LOGIN = 16 << 10
ORIGIN = 1_700_000_000_000_000

READS = [1, 10, 11, 12, 13, 14, 20, 21, 22, 31, 32, 41, 100, 102, 103, 104, 120, 123, 200, 201, 300, 301, 600, 601, 606]
WRITES = [*range(128, 150), 160, 161, 162]

CASES = []


class Wrong(Exception):
    pass


class Skip(Exception):
    pass


def case(function):
    CASES.append(function)
    return function


def expect(condition, text):
    if not condition:
        raise Wrong(text)


def expect_reply(reply, what, status=None, reason=None):
    if reason is not None:
        expect(reply.command == g.COMMAND_EVICTION, f"{what}: answered with status {reply.status}, not evicted")
        expect(reply.reason == reason, f"{what}: evicted for {reply.reason}, not {reason}")
    else:
        expect(reply.command == g.COMMAND_REPLY, f"{what}: evicted for {reply.reason}")
        allowed = status if isinstance(status, tuple) else (status,)
        expect(reply.status in allowed, f"{what}: status {reply.status}, not {status}")


def expect_error(code, what, function, *arguments):
    try:
        function(*arguments)
    except ServerError as error:
        expect(error.code == code, f"{what}: error {error.code}, not {code}")
    else:
        raise Wrong(f"{what}: was accepted")


def expect_closed(client, what):
    """Closed by the server, with nothing said before."""
    client.socket.settimeout(15)
    try:
        data = client.socket.recv(1)
    except ConnectionError:
        data = b""
    except TimeoutError:
        raise Wrong(f"{what}: the connection stays open") from None
    expect(data == b"", f"{what}: answered instead of closed")


def expect_usable(client, what):
    try:
        client.ping()
    except (OSError, ServerError, ValueError) as error:
        raise Wrong(f"{what}: the connection is not usable afterwards ({error})") from None


class WellBehaved(threading.Thread):
    """Sends and polls on one connection all the time; whatever goes wrong is kept."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.client = Client(address, timeout=30).login()
        self.stream = self.client.create_stream("well-behaved")
        self.topic = self.client.create_topic(self.stream, "t", 1)
        self.exchanges = 0
        self.fault = None
        self.ending = False

    def run(self):
        try:
            while not self.ending:
                payload = struct.pack("<Q", self.exchanges) * 20
                base = self.client.send(self.stream, self.topic, 0, build_batch([payload], ORIGIN))
                polled = self.client.poll(self.stream, self.topic, 0, base, 1, with_payload=True)
                if base != self.exchanges or [m[2] for m in polled.messages] != [payload]:
                    raise ValueError(f"message {self.exchanges} went to {base} and read as {polled.messages}")
                self.exchanges += 1
                time.sleep(0.005)
        except (OSError, ServerError, ValueError) as error:
            self.fault = error

    def check(self):
        goal, deadline = self.exchanges + 2, time.monotonic() + 20
        while self.exchanges < goal and self.fault is None and time.monotonic() < deadline:
            time.sleep(0.005)
        expect(self.fault is None, f"the well-behaved connection failed: {self.fault!r}")
        expect(self.exchanges >= goal, "the well-behaved connection stands still")


class Context:
    def __init__(self, arguments, work):
        self.arguments = arguments
        self.work = work
        self.rng = random.Random(arguments.seed)
        self.server = Server(arguments.server, work / "data")
        self.servers = [self.server]
        self.well_behaved = None

    def start(self):
        self.server.start()
        self.well_behaved = WellBehaved(self.server.address)
        self.well_behaved.start()

    def another_server(self, path, **more):
        server = Server(self.arguments.server, path, **more)
        self.servers.append(server)
        return server

    def connect(self, **more):
        return Client(self.server.address, **more)

    def login(self, **more):
        return self.connect(**more).login()

    def check(self):
        self.server.check_alive()
        self.well_behaved.check()
        for server in self.servers:
            report = server.sanitizer_report()
            if report:
                raise ServerFailure("sanitizer report:\n" + report)


# ---- frames --------------------------------------------------------------------------------------


@case
def frame_sizes(ctx):
    """A size outside 256..64 MiB (16 KiB before login) ends the connection without an answer."""
    for size in (0, 1, 255, MAX_FRAME + 1, 0x7FFFFFFF, 0xFFFFFFFF):
        with ctx.login() as client:
            client.post(g.OP_READ, code=g.PING, size=size)
            expect_closed(client, f"size {size}")
    for size in (255, MAX_FRAME_BEFORE_LOGIN + 1, MAX_FRAME):
        with ctx.connect() as client:
            client.post(g.OP_READ, code=g.PING, size=size)
            expect_closed(client, f"size {size} before login")


@case
def frame_commands(ctx):
    for command in (0, 1, 4, 6, 8, 13, 127, 255):
        with ctx.login() as client:
            client.post(g.OP_READ, code=g.PING, command=command)
            expect_closed(client, f"command {command}")


@case
def frame_client_zero(ctx):
    with ctx.login() as client:
        client.post(g.OP_READ, code=g.PING, client=0)
        expect_closed(client, "client 0")
    with ctx.connect() as client:
        client.post(g.OP_REGISTER, b"", client=0)
        expect_closed(client, "login as client 0")


@case
def frame_truncated(ctx):
    """A peer that goes away within a frame, politely or not."""
    with ctx.login() as client:
        whole = client.frame(g.OP_SEND_MESSAGES, send_body(0, 0, 0, build_batch([b"x" * 40_000], ORIGIN)))
    for cut in (1, 48, 52, 60, 61, 255, 256, 257, 300, 16_000, 17_000, len(whole) - 1):
        for abort in (False, True):
            with ctx.login() as client:
                client.send_raw(whole[:cut])
                if abort:
                    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    client.socket.shutdown(socket.SHUT_WR)
                    expect_closed(client, f"{cut} bytes of a frame")


@case
def frame_in_pieces(ctx):
    """A frame may arrive in any pieces, and several in one."""
    with ctx.login() as client:
        for byte in client.frame(g.OP_READ, code=g.PING):
            client.send_raw(bytes([byte]))
        expect_reply(client.take(), "ping byte by byte", status=0)
        data = b"".join(client.frame(g.OP_READ, code=g.GET_ME) for _ in range(50))
        at = 0
        while at < len(data):
            size = ctx.rng.randint(1, 700)
            client.send_raw(data[at : at + size])
            at += size
        for number in range(50):
            expect_reply(client.take(), f"request {number} of 50", status=0)
        client.send_raw(client.frame(g.OP_READ, code=g.PING))
        client.socket.shutdown(socket.SHUT_WR)
        expect_reply(client.take(), "ping before a half close", status=0)


@case
def noise(ctx):
    """Bytes of no protocol, and those of others."""
    texts = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".ljust(512), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".ljust(600, b"\0")]
    for data in texts + [ctx.rng.randbytes(ctx.rng.randint(256, 5000)) for _ in range(30)]:
        with ctx.connect() as client:
            client.send_raw(data)
            client.socket.settimeout(15)
            try:  # closed at once, or after answers; or waiting for the rest of a frame
                client.socket.shutdown(socket.SHUT_WR)
                while client.socket.recv(65536):
                    pass
            except TimeoutError:
                raise Wrong(f"noise {data[:8].hex()}…: the connection stays open") from None
            except OSError:
                pass


@case
def header_bits(ctx):
    """Each header byte set wrong in turn: an answer or a closed connection, and nothing else."""
    client = ctx.login()
    for at in range(g.HEADER_SIZE):
        if 48 <= at < 52:
            continue  # the size; has its own case
        frame = bytearray(client.frame(g.OP_READ, code=g.GET_ME))
        frame[at] ^= 0xFF
        client.send_raw(frame)
        client.socket.settimeout(15)
        try:
            client.take()
        except ConnectionError:
            client.close()
            client = ctx.login()
        except TimeoutError:
            raise Wrong(f"header byte {at}: neither answered nor closed") from None
    expect_usable(client, "header bits")
    client.close()


# ---- operations and sessions ---------------------------------------------------------------------


@case
def operations_unknown_and_internal(ctx):
    with ctx.login() as client:
        for operation in (0, 4, 63, 64, 65, 66, 67, 68, 69, 127, 150, 159, 163, 255):
            for body in (b"", ctx.rng.randbytes(50)):
                client.post(operation, body, checksum=0)
                expect_reply(client.take(), f"operation {operation}", reason=4)
                expect_usable(client, f"operation {operation}")


@case
def codes_unknown_and_misplaced(ctx):
    with ctx.login() as client:
        for code in (0, 2, 99, 999, 0xFFFFFFFF):
            expect_reply(client.ask(g.OP_READ, code=code), f"code {code}", status=3)
        for code in (33, 101, 121, 202, 302, 503, 604):
            expect_reply(client.ask(g.OP_READ, code=code), f"replicated code {code} as a read", status=5)
        for code in (38, 44):
            expect_reply(client.ask(g.OP_READ, code=code), f"old login {code}", reason=15)
        expect_usable(client, "unknown codes")


@case
def session_and_request_numbers(ctx):
    with ctx.login() as client:
        for operation, fields in (
            (g.OP_CREATE_STREAM, {"session": 0}),
            (g.OP_CREATE_STREAM, {"request": 0}),
            (g.OP_SEND_MESSAGES, {"session": 0}),
            (g.OP_REGISTER, {"session": 5}),
            (g.OP_REGISTER, {"request": 1}),
        ):
            reply = client.ask(operation, b"", checksum=0, **fields)
            expect_reply(reply, f"operation {operation} with {fields}", reason=5)
            expect_usable(client, f"operation {operation} with {fields}")


@case
def request_checksum_wrong(ctx):
    with ctx.login() as client:
        for operation, body, code in (
            (g.OP_CREATE_STREAM, str8("checksum"), 0),
            (g.OP_READ, b"", g.GET_ME),
            (g.OP_SEND_MESSAGES, send_body(0, 0, 0, build_batch([b"x"], ORIGIN)), 0),
        ):
            for checksum in (1, g.xxh3(body) ^ 1, g.xxh3(body) | 1 << 64):
                reply = client.ask(operation, body, code, checksum=checksum)
                expect_reply(reply, f"operation {operation}, checksum {checksum:x}", status=4)
        expect_usable(client, "wrong checksums")
        expect(client.read(g.GET_STREAM, identifier("checksum")) == b"", "a refused stream exists")


@case
def before_login(ctx):
    with ctx.connect() as client:
        client.ping()
        for code in READS[1:]:
            reply = client.ask(g.OP_READ, ctx.rng.randbytes(20), code)
            expect_reply(reply, f"code {code} before login", status=40)
        for operation in WRITES:
            reply = client.ask(operation, ctx.rng.randbytes(20), checksum=0, session=7)
            expect_reply(reply, f"operation {operation} before login", reason=1)
        for code in (38, 44):
            expect_reply(client.ask(g.OP_READ, code=code), f"old login {code}", reason=15)
        reply = client.ask(g.OP_LOGOUT, session=7)
        expect_reply(reply, "logout before login", status=0)
        client.login()
        client.read(g.GET_ME)
        client.call(g.OP_LOGOUT)
        expect_reply(client.ask(g.OP_READ, code=g.GET_ME), "a read after logout", status=40)


@case
def logins_that_fail(ctx):
    good = struct.pack("<I", g.PROTOCOL_VERSION) + str8("t") + str8("1") + str8("iggy") + str8("iggy") + bytes(4)
    with ctx.connect() as client:

        def reasons(body, what, allowed):
            reply = client.ask(g.OP_REGISTER, body)
            expect(reply.command == g.COMMAND_EVICTION, f"{what}: status {reply.status}")
            expect(reply.reason in allowed, f"{what}: evicted for {reply.reason}, not {allowed}")

        for cut in range(len(good)):
            reasons(good[:cut], f"{cut} bytes of a login", (15, 9, 10))
        for version in (0, g.PROTOCOL_VERSION + 1024, 0xFFFFFFFF):
            reasons(struct.pack("<I", version) + good[4:], f"version {version}", (14,))
        prefix = good[:8]
        for name, password in (("iggy", "wrong"), ("nobody", "iggy"), ("x" * 255, "y" * 255)):
            reasons(prefix + str8(name) + str8(password) + bytes(4), f"login as {name[:9]}", (9,))
        reasons(prefix + str8("no such token") + bytes(4), "an unknown token", (10,))
        reasons(prefix + str8("") + str8("") + bytes(4), "an empty name", (9, 10, 15))
        for _ in range(20):
            reasons(struct.pack("<I", g.PROTOCOL_VERSION) + ctx.rng.randbytes(60), "noise as login", (15, 9, 10))
        client.login()
        client.read(g.GET_ME)


@case
def balanced_sends_leave_no_partition_out(ctx):
    """The server picks the partition in turn within each topic, whatever goes to other topics in between."""
    batch = build_batch([b"balanced"], ORIGIN)
    with ctx.login() as client, ctx.login() as other:
        stream = client.create_stream("balanced")
        topics = [client.create_topic(stream, name, 2) for name in ("a", "b")]

        def send(sender, topic):
            target = identifier(stream) + identifier(topic) + struct.pack("<BBI", 1, 0, 1)
            sender.call(g.OP_SEND_MESSAGES, struct.pack("<I", len(target)) + target + batch.data)

        for _ in range(10):
            for topic in topics:
                send(client, topic)
        for _ in range(10):  # from two connections, on two shards where there are two
            send(client, topics[0])
            send(other, topics[1])
            send(other, topics[0])
            send(client, topics[1])
        for topic in topics:
            deadline = time.monotonic() + 10
            while True:
                counts = [row[3] for row in client.partitions(stream, topic)]
                if counts == [15, 15] or time.monotonic() > deadline:
                    break
                time.sleep(0.05)
            expect(counts == [15, 15], f"topic {topic}: its partitions got {counts}")


@case
def repeated_requests(ctx):
    """A request sent again gets the same frame, whatever happened since, and is not carried out again."""
    rights = bytes([0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0])  # manages users and streams
    with ctx.login() as root, ctx.connect() as client:
        rights = b"\x01" + struct.pack("<I", len(rights)) + rights
        root.call(141, str8("repeater") + str8("password") + b"\x01" + rights)
        client.login("repeater", "password")
        requests = [
            client.frame(g.OP_CREATE_STREAM, str8("repeated")),
            client.frame(g.OP_CREATE_STREAM, str8("repeated")),
            client.frame(141, str8("another") + str8("password") + b"\x01\x00"),
            client.frame(144, identifier("another") + str8("password") + str8("password2")),
            client.frame(144, identifier("repeater") + str8("password") + str8("password2")),
        ]

        def answer(request):
            client.send_raw(request)
            return client.take_bytes()

        answers = [answer(request) for request in requests]
        status = [struct.unpack_from("<I", data, 216)[0] for data in answers]
        expect(status == [0] * 5, f"answered with {status}")
        entries = [struct.unpack_from("<I", data, g.HEADER_SIZE)[0] for data in answers]
        expect(entries == [0, 1, 0, 0, 0], f"refused: {entries}")
        root.call(g.OP_DELETE_STREAM, identifier("repeated"))
        root.call(145, identifier("repeater") + b"\x00")
        for number, request in enumerate(requests):
            again = answer(request)
            expect(again == answers[number], f"request {number}: {again.hex()}, not {answers[number].hex()}")
        expect_error(41, "a new request", client.call, 141, str8("third") + str8("password") + b"\x01\x00")
        expect(root.read(g.GET_STREAM, identifier("repeated")) == b"", "the stream was created again")
        for name in ("repeater", "another"):
            root.call(143, identifier(name))


# ---- bodies --------------------------------------------------------------------------------------


@case
def bodies_truncated(ctx):
    """Every truncation of a valid body is answered; those of decisive length are refused."""
    with ctx.login() as client, ctx.connect() as other:
        stream = client.create_stream("truncated")
        # There, so that nothing but the cut is wrong with a body that names them.
        user = identifier("truncated")
        client.call(141, str8("truncated") + str8("password") + b"\x01\x00")
        client.call(146, str8("truncated") + bytes(8))
        topic = client.create_topic(stream, "t", 2)
        target = identifier(stream) + identifier(topic)
        options = g.option("durability", "replicated")
        topic_body = identifier(stream) + struct.pack("<I", 1) + str8("never") + options
        offset = client.offset_body(stream, topic, 0, 1)
        reads = {
            g.POLL_MESSAGES: client.poll_body(stream, topic, 0, 0, 10),
            103: client.poll_body(stream, topic, 0, 0, 10),
            g.GET_OFFSET: offset,
            g.GET_TOPIC: target,
            g.GET_STREAM: identifier("truncated"),
            600: target + numeric(0),
            606: target + numeric(0),
            13: b"\x01",
            31: numeric(0),
        }
        writes = {
            g.OP_CREATE_STREAM: str8("never"),
            129: identifier(stream) + str8("never"),
            g.OP_CREATE_TOPIC: topic_body,
            133: target + str8("never"),
            136: target + struct.pack("<I", 1),
            139: target + str8("never"),
            141: str8("never") + str8("password") + b"\x01\x00",
            142: user + b"\x01" + str8("never") + b"\x00",
            143: user,
            144: user + str8("password") + str8("password2"),
            145: user + b"\x01" + struct.pack("<I", 11) + bytes(11),
            146: str8("never") + bytes(8),
            147: str8("truncated"),
            g.OP_SEND_MESSAGES: send_body(stream, topic, 0, build_batch([b"abc"], ORIGIN)),
            g.OP_STORE_OFFSET: offset + struct.pack("<QB", 0, 1),
            g.OP_DELETE_OFFSET: offset + b"\x01",
        }
        # Cut here, they are whole bodies of another meaning.
        fine = {g.OP_CREATE_TOPIC: {len(topic_body) - len(options)}}
        for code, body in reads.items():
            for cut in range(len(body)):
                reply = client.ask(g.OP_READ, body[:cut], code)
                expect(reply.command == g.COMMAND_REPLY, f"code {code} cut at {cut}: evicted for {reply.reason}")
        for operation, body in writes.items():
            for cut in range(len(body)):
                if cut in fine.get(operation, ()):
                    continue
                what = f"operation {operation} cut at {cut}"
                if operation in range(128, 150):
                    expect_error(3, what, lambda: client.ask(operation, body[:cut], checksum=0).payload())
                    continue
                try:
                    client.ask(operation, body[:cut], checksum=0).payload()
                except ServerError:
                    continue
                raise Wrong(f"{what} was accepted")
        expect_usable(client, "truncated bodies")
        expect(b"truncated" in client.read(41), "the token is gone")
        other.login("truncated", "password")
        # Whole, they are carried out: it was the cut that was refused.
        for operation in (147, 146, 145, 144, 142):
            client.call(operation, writes[operation])
        client.call(143, identifier("never"))
        client.call(147, str8("never"))
        expect(client.partitions(stream, topic)[0][3] == 0, "a truncated batch was stored")


@case
def bodies_random(ctx):
    """Random bytes, and valid bodies with random changes, for each command."""
    with ctx.login() as client:
        stream = client.create_stream("random")
        topic = client.create_topic(stream, "t", 1)
        target = identifier(stream) + identifier(topic)
        shapes = [
            target,
            client.poll_body(stream, topic, 0, 0, 10),
            identifier(stream) + struct.pack("<I", 1) + str8("x") + g.option("segment_size", 1 << 20),
            send_body(stream, topic, 0, build_batch([b"abc", b"defg"], ORIGIN)),
        ]
        for operation, code in [(g.OP_READ, code) for code in READS] + [(operation, 0) for operation in WRITES]:
            for turn in range(24):
                if turn < 8:
                    body = ctx.rng.randbytes(ctx.rng.choice((0, 1, 2, 5, 17, 100, 400, 3000)))
                else:
                    body = bytearray(ctx.rng.choice(shapes))
                    for _ in range(ctx.rng.randint(1, 4)):
                        # Not the first eight bytes: those could turn into somebody else's stream.
                        at = ctx.rng.randrange(8, len(body))
                        body[at] = ctx.rng.choice((0, 1, 0x7F, 0xFF, ctx.rng.randrange(256)))
                    body = bytes(body)
                try:
                    client.ask(operation, body, code, checksum=0)
                except (OSError, ValueError) as error:
                    raise Wrong(f"operation {operation} code {code} body {body[:200].hex()}: {error}") from None
        expect_usable(client, "random bodies")


@case
def batches_invalid(ctx):
    with ctx.login() as client:
        stream = client.create_stream("batches")
        topic = client.create_topic(stream, "t", 1)
        good = build_batch([b"one", b"two", b"three" * 100], ORIGIN)

        def refused(what, codes, change=None, batch=good, count=None):
            data = bytearray(batch.data)
            if change is not None:
                change(data)
            body = send_body(stream, topic, 0, g.Batch(bytes(data), batch.checksums), count)
            reply = client.ask(g.OP_SEND_MESSAGES, body)
            expect_reply(reply, what, status=codes)

        def put(form, at, value):
            return lambda data: struct.pack_into(form, data, at, value)

        def flip(at):
            return lambda data: data.__setitem__(at, data[at] ^ 1)

        refused("wrong frame checksum", (4027,), flip(256))
        refused("changed payload", (4027,), flip(256 + 48))
        refused("wrong batch checksum", (4039,), flip(40))
        for count in (0, 2, 4, 0xFFFFFFFF):
            refused(f"count {count} in the request", (3,), count=count)
            refused(f"count {count} in the batch", (3,), put("<I", 48, count))
            refused(f"count {count} in both", (3, 4039), put("<I", 48, count), count=count)
        for length in (0, 255, 256, len(good.data) - 1, len(good.data) + 1, 1 << 63):
            refused(f"length {length}", (3,), put("<Q", 32, length))
        for at in (52, 100, 255):
            refused(f"reserved byte {at}", (3, 4101), flip(at))
        refused("reserved bytes of a frame", (3, 4027, 4101), flip(256 + 40))
        for size in (0, 4, 0x7FFFFFFF, 0xFFFFFFFF):
            refused(f"payload length {size}", (3, 4027), put("<I", 256 + 36, size))
            refused(f"header length {size}", (3, 4027), put("<I", 256 + 32, size or 9))
        refused("index of a message", (3, 4027), put("<I", 256 + 24, 7))
        refused("bytes behind the batch", (3,), lambda data: data.extend(b"x"))
        refused("no frames", (3,), batch=build_batch([], ORIGIN), count=0)
        for place in ((stream, topic, 1), (stream, topic, 0xFFFFFFFF), (stream, 9, 0), (4000, 0, 0)):
            reply = client.ask(g.OP_SEND_MESSAGES, send_body(*place, good))
            expect_reply(reply, f"a batch for {place}", status=20)
        expect(client.partitions(stream, topic)[0][3] == 0, "an invalid batch was stored")
        expect(client.send(stream, topic, 0, good) == 0, "the good batch does not start at 0")


@case
def commands_out_of_order(ctx):
    """Right frames at the wrong time, and for things that are not there."""
    with ctx.login() as client:
        stream = client.create_stream("order")
        topic = client.create_topic(stream, "t", 1)
        expect_error(1009, "delete of an unknown stream", client.call, g.OP_DELETE_STREAM, identifier("nothing"))
        expect_error(2010, "delete of an unknown topic", client.delete_topic, stream, 77)
        expect_error(1012, "a stream twice", client.create_stream, "order")
        expect_error(2013, "a topic twice", client.create_topic, stream, "t", 1)
        expect_error(2015, "too many partitions", client.create_topic, stream, "u", 1001)
        expect_error(4041, "an unknown option", lambda: client.create_topic(stream, "u", 1, nonsense=1))
        expect_error(4042, "a bad segment size", lambda: client.create_topic(stream, "u", 1, segment_size=1000))
        expect_error(4100, "an offset of an empty partition", client.store_offset, stream, topic, 0, 1, 0)
        expect_error(1009, "poll of an unknown stream", client.poll, 4000, 0, 0, 0, 1)
        expect_error(3007, "poll of an unknown partition", client.poll, stream, topic, 5, 0, 1)
        expect_error(5, "flush", client.read, 102, identifier(stream) + identifier(topic) + bytes(5))
        client.send(stream, topic, 0, build_batch([b"x"], ORIGIN))
        expect_error(4100, "an offset behind the end", client.store_offset, stream, topic, 0, 1, 1)
        for offset in (1, 1 << 40, (1 << 64) - 1):
            expect(client.poll(stream, topic, 0, offset, 10).messages == [], f"poll at {offset} found something")
        expect(client.poll(stream, topic, 0, 0, 0).messages == [], "poll of nothing found something")
        expect(len(client.poll(stream, topic, 0, 0, 0xFFFFFFFF).messages) == 1, "poll of everything")
        client.delete_topic(stream, topic)
        expect_error(2010, "poll of a deleted topic", client.poll, stream, topic, 0, 0, 1)
        expect_error(20, "send to a deleted topic", client.send, stream, topic, 0, build_batch([b"x"], ORIGIN))


# ---- load of the unkind sort ---------------------------------------------------------------------


@case
def pipelined(ctx):
    """Many requests in flight on one connection are answered in their order."""
    with ctx.login() as client:
        stream = client.create_stream("pipelined")
        topics = [client.create_topic(stream, f"t{number}", 4) for number in range(4)]
        asked, data, sent = [], [], {}
        for number in range(600):
            draw = ctx.rng.random()
            place = (ctx.rng.choice(topics), ctx.rng.randrange(4))
            if draw < 0.5:
                size = ctx.rng.choice((20, 300, 70_000)) if number % 20 == 0 else 50
                batch = build_batch([bytes(size)] * ctx.rng.randint(1, 3), ORIGIN)
                asked.append((g.OP_SEND_MESSAGES, client.request, place, sent.get(place, 0)))
                sent[place] = sent.get(place, 0) + len(batch.checksums)
                data.append(client.frame(g.OP_SEND_MESSAGES, send_body(stream, *place, batch)))
            elif draw < 0.75:
                asked.append((g.OP_READ, client.request, place, None))
                body = client.poll_body(stream, *place, 0, 5)
                data.append(client.frame(g.OP_READ, body, g.POLL_MESSAGES))
            elif draw < 0.8:
                asked.append((139, client.request, place, None))
                data.append(client.frame(139, identifier(stream) + identifier(place[0]) + str8(f"g{number}")))
            else:
                asked.append((g.OP_READ, client.request, None, None))
                data.append(client.frame(g.OP_READ, code=g.PING))
        writer = threading.Thread(target=client.send_raw, args=(b"".join(data),), daemon=True)
        writer.start()
        for number, (operation, request, place, base) in enumerate(asked):
            reply = client.take()
            what = f"answer {number} of {len(asked)}"
            expect_reply(reply, what, status=0)
            expect(reply.operation == operation, f"{what}: operation {reply.operation}, not {operation}")
            expect(reply.request == request, f"{what}: request {reply.request}, not {request}")
            if base is not None:
                confirmed = struct.unpack_from("<IIIIQ", reply.body)
                expect(confirmed[2:] == (*place, base), f"{what}: confirmed {confirmed[2:]}, not {(*place, base)}")
        writer.join()


@case
def readers_that_do_not_read(ctx):
    """Connections which ask for megabytes and take none; others work on, and the data is right when taken."""
    with ctx.login() as client:
        stream = client.create_stream("slow")
        topic = client.create_topic(stream, "t", 1)
        for _ in range(8):
            client.send(stream, topic, 0, build_batch([bytes(60_000)] * 8, ORIGIN))
        body = client.poll_body(stream, topic, 0, 0, 64)
        slow = [ctx.login(receive_buffer=4096) for _ in range(8)]
        for reader in slow:
            reader.send_raw(b"".join(reader.frame(g.OP_READ, body, g.POLL_MESSAGES) for _ in range(30)))
        for _ in range(5):
            ctx.well_behaved.check()
            time.sleep(0.2)
        began = time.monotonic()
        client.send(stream, topic, 0, build_batch([b"x"], ORIGIN))
        expect(time.monotonic() - began < 10, "a send waits for readers that do not read")
        for _ in range(30):  # the first one reads in the end
            expect(len(g.parse_poll(slow[0].take().payload(), False).messages) == 64, "a slow reader's reply")
        for number, reader in enumerate(slow):
            if number % 2:
                reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            reader.close()
        expect_usable(client, "slow readers")


@case
def connections_that_come_and_go(ctx):
    for number in range(300):
        client = ctx.connect()
        if number % 3 == 0:
            client.send_raw(client.frame(g.OP_READ, code=g.PING))
        if number % 3 == 1:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    with ctx.login() as client:
        expect_usable(client, "many short connections")


# ---- servers of their own ------------------------------------------------------------------------


@case
def second_server_on_the_same_directory(ctx):
    """Refuses with one line and leaves the first one alone."""
    began = time.monotonic()
    second = subprocess.run(
        [ctx.server.binary, "--with-default-root-credentials"],
        env=ctx.server.environment,
        cwd=ctx.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=40,
        text=True,
        check=False,
    )
    took = time.monotonic() - began
    lines = second.stderr.strip().splitlines()
    expect(second.returncode == 1, f"status {second.returncode}: {second.stderr[-500:]}")
    expect(len(lines) == 1, f"{len(lines)} lines on stderr: {second.stderr[-500:]}")
    expect(str(ctx.server.path) in lines[0], f"the directory is not named: {lines[0]}")
    expect(took < 20, f"took {took:.0f} s")


@case
def descriptors_run_out(ctx):
    """`ulimit -n 128`: refused connections end or wait; what is open works; closing helps."""
    server = ctx.another_server(
        ctx.work / "descriptors", limits=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    )
    server.start()
    try:
        with Client(server.address).login() as first:
            stream = first.create_stream("s")
            topic = first.create_topic(stream, "t", 2)
            crowd, refused = [], False
            for _ in range(200):
                try:
                    client = Client(server.address, timeout=5)
                    crowd.append(client)
                    client.ping()
                except OSError:
                    refused = True
                    break
            expect(refused, "200 connections with 128 descriptors")
            batch, codes = build_batch([b"x" * 100], ORIGIN), []
            first.ping()
            for number in range(20):  # these need files: done or refused with a code, never a hang
                try:
                    first.create_topic(stream, f"t{number}", 1)
                    first.call(g.OP_SEND_MESSAGES, send_body(stream, f"t{number}", 0, batch), attempts=3)
                except ServerError as error:
                    codes.append(error.code)
            server.check_alive()
            expect(set(codes) <= {58}, f"errors that clients do not repeat: {set(codes)}")
            for client in crowd:
                client.close()
            deadline = time.monotonic() + 60
            while True:
                try:
                    with Client(server.address, timeout=15).login() as client:
                        base = client.send(stream, topic, 0, batch)
                        polled = client.poll(stream, topic, 0, base, 1)
                        expect(polled.messages[0][1] == batch.checksums[0], "another message came back")
                        break
                except (OSError, ServerError) as error:
                    expect(time.monotonic() < deadline, f"after closing the others: {error}")
                    time.sleep(0.2)
            first.send(stream, topic, 1, batch)
            for number in range(20):  # what was refused is taken now, without a restart
                first.send(stream, f"t{number}", 0, batch)
            print(f"   {len(crowd)} connections until refused; {len(codes)} of 20 topics refused with {set(codes)}")
        server.stop()
    finally:
        server.end()


def fill(client, stream, topic, batch, most):
    """Sends until refused twice; the confirmed offsets and the last error."""
    bases, error = [], None
    for _ in range(most):
        try:
            reply = client.call(g.OP_SEND_MESSAGES, send_body(stream, topic, 0, batch), attempts=5)
            bases.append(struct.unpack_from("<Q", reply, 16)[0])
            error = None
        except ServerError as refused:
            if error is not None:
                return bases, refused.code
            error = refused
    raise Wrong(f"{most} batches of {len(batch.data)} bytes were accepted")


def read_all(client, stream, topic, bases, batch):
    found, at = {}, 0
    while True:
        polled = client.poll(stream, topic, 0, at, 200)
        if not polled.messages:
            break
        found |= {offset: checksum for offset, checksum, _ in polled.messages}
        at = polled.messages[-1][0] + 1
    for base in bases:
        got = [found.get(base + index) for index in range(len(batch.checksums))]
        expect(got == batch.checksums, f"the confirmed batch at {base} is not readable ({at} messages in the log)")


@contextlib.contextmanager
def server_on_small_disk(ctx, name):
    """A server, not started, whose data directory lies on 64 MiB of tmpfs; and the mount."""
    if os.geteuid() != 0:
        raise Skip("mounting needs root")
    mount = ctx.work / name
    mount.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "galgo-test", str(mount)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        raise Skip(f"no mount: {mounted.stderr.strip()}")
    server = ctx.another_server(mount / "data")
    server.log_path = ctx.work / f"{name}.log"
    try:
        yield server, mount
    finally:
        server.end()
        subprocess.run(["umount", "-l", str(mount)], check=False)


def fill_disk(path):
    """A file that takes all that is free."""
    with open(path, "wb", buffering=0) as ballast:
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while ballast.write(bytes(size)) == size:
                    pass


def journals(mount):
    return {path.name for path in (mount / "data" / "state").glob("journal-*.wal")}


@case
def recovery_on_a_full_disk(ctx):
    """What only the journals hold stays there until there is room for it, and goes without a restart."""
    with server_on_small_disk(ctx, "recovery") as (server, mount):
        batch = build_batch([ctx.rng.randbytes(6000) for _ in range(10)], ORIGIN)  # small enough for the journal
        server.start()
        with Client(server.address).login() as client:
            stream = client.create_stream("s")
            topic = client.create_topic(stream, "t", 1)
            bases = [client.send(stream, topic, 0, batch) for _ in range(12)]
        server.kill()
        old_journals = journals(mount)
        expect(old_journals, "no journal after the kill")
        fill_disk(mount / "ballast")
        server.spawn()
        time.sleep(5)
        server.check_alive()
        expect(old_journals <= journals(mount), "the journals went before there was room for what they hold")
        (mount / "ballast").unlink()
        server.wait_ready()  # the file that names the port has room now
        with Client(server.address).login() as client:
            read_all(client, stream, topic, bases, batch)
            deadline = time.monotonic() + 20
            while old_journals & journals(mount):
                expect(time.monotonic() < deadline, "20 s after there is room: journals of the run before are kept")
                time.sleep(0.2)
        server.kill()
        server.start()
        with Client(server.address).login() as client:
            bases.append(client.send(stream, topic, 0, batch))
            read_all(client, stream, topic, bases, batch)
        server.stop()


@case
def stops_that_leave_something_unwritten(ctx):
    """Status 0 as long as the next start finds all that was acknowledged: fenced, or on a full disk."""
    server = ctx.another_server(ctx.work / "fenced")
    batch = build_batch([b"x" * 1000] * 10, ORIGIN)
    server.start()
    try:
        with Client(server.address).login() as client:
            stream = client.create_stream("s")
            topic = client.create_topic(stream, "t", 1, durability="persisted")
            for _ in range(5):
                client.send(stream, topic, 0, batch)
        server.kill()
        found = 0
        for path in (server.path / "state").glob("journal-*.wal"):
            data = bytearray(path.read_bytes())
            at = data.find(b"x" * 900)
            if at >= 0:
                data[at + 100] ^= 1
                path.write_bytes(data)
                found += 1
        expect(found == 1, f"the first batch is in {found} journals")
        for _ in range(2):  # the second time the journals are gone and the marker is there
            server.start()
            deadline = time.monotonic() + 20
            while server.http("/healthz")[0] != 503:  # it is told about once a second
                expect(time.monotonic() < deadline, "20 s after the start: health shows no lost batch")
                time.sleep(0.2)
            server.stop()
    finally:
        server.end()
    with server_on_small_disk(ctx, "stop") as (server, mount):
        batch = build_batch([ctx.rng.randbytes(2000) for _ in range(10)], ORIGIN)
        server.start()
        with Client(server.address).login() as client:
            stream = client.create_stream("s")
            topic = client.create_topic(stream, "t", 1)
            fill_disk(mount / "ballast")
            bases, code = fill(client, stream, topic, batch, 10_000)
            print(f"   {len(bases)} batches until error {code}")
        server.stop()
        (mount / "ballast").unlink()
        server.start()
        with Client(server.address).login() as client:
            read_all(client, stream, topic, bases, batch)
        server.stop()


@case
def metadata_on_a_full_disk(ctx):
    """Changes are taken while room is kept ahead, refused with 58 when it is used up, taken again later."""
    with server_on_small_disk(ctx, "metadata") as (server, mount):
        server.start()
        with Client(server.address).login() as client:
            client.create_stream("first")
            fill_disk(mount / "ballast")
            taken, code = 0, None
            for number in range(10_000):
                try:
                    client.call(g.OP_CREATE_STREAM, str8(f"s{number}"), attempts=1)
                    taken += 1
                except ServerError as error:
                    code = error.code
                    break
            expect(code == 58, f"after {taken} changes: {code}")
            expect(taken > 100, f"only {taken} changes on a full disk")
            expect_usable(client, "a full disk")
        server.kill()
        server.spawn()  # what ends the sessions of the last run may have no room either
        server.wait_announced()
        with Client(server.address) as client:
            client.ping()
            try:
                client.call(g.OP_REGISTER, client.login_body("iggy", "iggy"), attempts=1)
                print("   the start found room")
            except ServerError as error:
                expect(error.code == 58, f"a login without room: {error.code}")
        (mount / "ballast").unlink()
        server.wait_ready()
        with Client(server.address).login() as client:
            for number in range(20):
                client.create_stream(f"later{number}")
        server.kill()
        server.start()
        with Client(server.address).login() as client:
            for name in ("first", f"s{taken - 1}", "later19"):
                client.create_topic(name, "t", 1)
            try:
                client.create_topic(f"s{taken}", "t", 1)
                raise Wrong("a refused change was carried out")
            except ServerError as error:
                print(f"   {taken} changes until refused with {code}; the refused one is error {error.code}")
        server.stop()


@case
def disk_full(ctx):
    """64 MiB of disk: refusals are typed, reads go on, deleting helps at once, a full disk boots."""
    batch = build_batch([ctx.rng.randbytes(8000) for _ in range(16)], ORIGIN)
    most = 2 * (64 << 20) // len(batch.data)
    with server_on_small_disk(ctx, "small") as (server, mount):
        server.start()
        with Client(server.address).login() as client:
            stream = client.create_stream("s")
            for name in ("a", "b"):
                client.create_topic(stream, name, 1, segment_size=1 << 20)
            small = build_batch([b"small"], ORIGIN)
            expect(client.send(stream, "b", 0, small) == 0, "the first message")
            bases, code = fill(client, stream, "a", batch, most)
            server.check_alive()
            expect(len(bases) * len(batch.data) > 8 << 20, f"refused after {len(bases)} batches, error {code}")
            read_all(client, stream, "a", bases, batch)
            read_all(client, stream, "b", [0], small)
            print(f"   {len(bases)} batches of {len(batch.data)} bytes until error {code}")
        server.kill()
        old_journals = journals(mount)
        expect(old_journals, "no journal after the kill")
        server.start()
        with Client(server.address).login() as client:
            read_all(client, stream, "a", bases, batch)
            client.delete_topic(stream, "a")
            deadline = time.monotonic() + 20
            while True:
                try:
                    base = client.send(stream, "b", 0, batch)
                    break
                except ServerError as error:
                    expect(time.monotonic() < deadline, f"20 s after the delete: error {error.code}")
                    time.sleep(0.2)
            while old_journals & journals(mount):
                expect(time.monotonic() < deadline, "20 s after the delete: journals of the run before are kept")
                time.sleep(0.2)
            client.create_topic(stream, "c", 1, segment_size=1 << 20)
            bases, code = fill(client, stream, "c", batch, most)
            client.delete_topic(stream, "c")
            deadline = time.monotonic() + 20
            while True:
                try:
                    again = client.send(stream, "b", 0, batch)
                    break
                except ServerError as error:
                    expect(time.monotonic() < deadline, f"20 s after the second delete: error {error.code}")
                    time.sleep(0.2)
            read_all(client, stream, "b", [base, again], batch)
        server.stop()


@case
def a_full_disk_again_and_again(ctx):
    """64 MiB, one run of the server: until refused, everything read, a topic deleted, taken again; three times."""
    batch = build_batch([ctx.rng.randbytes(4000) for _ in range(12)], ORIGIN)  # small enough for the journals
    large = build_batch([ctx.rng.randbytes(8000) for _ in range(16)], ORIGIN)
    with server_on_small_disk(ctx, "again") as (server, mount):
        server.start()
        with Client(server.address).login() as client:
            stream = client.create_stream("s")
            client.create_topic(stream, "kept", 1, segment_size=1 << 20)
            kept = [client.send(stream, "kept", 0, batch)]
            for turn, sent in enumerate((batch, large, batch)):
                name = f"t{turn}"
                client.create_topic(stream, name, 1, segment_size=1 << 20)
                bases, code = fill(client, stream, name, sent, 2 * (64 << 20) // len(sent.data))
                taken = len(bases) * len(sent.data)
                expect(code in (4010, 58), f"turn {turn}: refused with {code}")
                expect(taken > 8 << 20, f"turn {turn}: refused after {taken} bytes")
                read_all(client, stream, name, bases, sent)
                read_all(client, stream, "kept", kept, batch)
                expect_usable(client, "a full disk")
                client.delete_topic(stream, name)
                deadline = time.monotonic() + 20
                while True:
                    try:
                        kept.append(client.send(stream, "kept", 0, batch))
                        break
                    except ServerError as error:
                        expect(time.monotonic() < deadline, f"turn {turn}, 20 s after the delete: error {error.code}")
                        time.sleep(0.2)
                while any(path.is_file() for path in (mount / "data" / "trash").rglob("*")):
                    expect(time.monotonic() < deadline, f"turn {turn}, 20 s after the delete: its files are there")
                    time.sleep(0.1)
                read_all(client, stream, "kept", kept, batch)
                print(f"   turn {turn}: {taken >> 20} MiB until error {code}")
            expect(kept == sorted(set(kept)), f"offsets of the kept topic: {kept}")
        server.stop()
        server.start()
        with Client(server.address).login() as client:
            read_all(client, stream, "kept", kept, batch)
        server.stop()


def permissions(globals_=(), streams=None):
    """With these numbers of global bits, and of bits of streams: {stream: (bits, {topic: bits})}."""

    def bits(count, chosen):
        return bytes(int(number in chosen) for number in range(count))

    def listed(items):
        return b"\x01" + b"\x01".join(items) + b"\x00" if items else b"\x00"

    body = bits(10, globals_) + listed(
        [
            struct.pack("<I", stream)
            + bits(6, chosen)
            + listed([struct.pack("<I", topic) + bits(4, of_topic) for topic, of_topic in topics.items()])
            for stream, (chosen, topics) in (streams or {}).items()
        ]
    )
    return b"\x01" + struct.pack("<I", len(body)) + body


@case
def rights_that_shards_check(ctx):
    """Each permission alone, with each command whose right the handler itself asks for."""
    # wire: the rules of polling, sending and statistics, by level and number of the permission.
    manage_read = {("G", n) for n in (4, 5, 6, 7)} | {("S", n) for n in (0, 1, 2, 3)} | {("T", 0), ("T", 1)}
    poll = manage_read | {("G", 8), ("S", 4), ("T", 2)}
    send = {("G", 4), ("G", 6), ("G", 9), ("S", 0), ("S", 2), ("S", 5), ("T", 0), ("T", 3)}
    with ctx.login() as root, ctx.connect() as subject:
        stream = root.create_stream("guarded")
        topics = [root.create_topic(stream, name, 1) for name in ("t", "other")]
        topic = topics[0]
        batch = build_batch([b"abc"], ORIGIN)
        root.send(stream, topic, 0, batch)
        root.call(141, str8("subject") + str8("password") + b"\x01\x00")
        subject.login("subject", "password")
        offset = subject.offset_body(stream, topic, 0, 1)
        commands = {
            "get_stats": ({("G", 0), ("G", 1)}, lambda: subject.read(10)),
            "poll_messages": (poll, lambda: subject.read(g.POLL_MESSAGES, subject.poll_body(stream, topic, 0, 0, 1))),
            "store_offset": (poll, lambda: subject.call(g.OP_STORE_OFFSET, offset + struct.pack("<QB", 0, 1))),
            "get_offset": (poll, lambda: subject.read(g.GET_OFFSET, offset)),
            "delete_offset": (poll, lambda: subject.call(g.OP_DELETE_OFFSET, offset + b"\x01")),
            "send_messages": (send, lambda: subject.call(g.OP_SEND_MESSAGES, send_body(stream, topic, 0, batch))),
        }
        grants = [("G", n, permissions([n])) for n in range(10)]
        grants += [("S", n, permissions((), {stream: ([n], {})})) for n in range(6)]
        grants += [("T", n, permissions((), {stream: ((), {topic: [n]})})) for n in range(4)]
        # Of another stream or topic: no rule has their names.
        grants += [("another S", n, permissions((), {stream + 1: ([n], {topic: range(4)})})) for n in range(6)]
        grants += [("another T", n, permissions((), {stream: ((), {topics[1]: [n]})})) for n in range(4)]
        grants += [("nothing", 0, permissions((), {stream: ((), {topic: ()})})), ("no record", 0, b"\x00")]
        for level, number, record in grants:
            root.call(145, identifier("subject") + record)
            for name, (needs, ask) in commands.items():
                what = f"{name} with permission {level} {number}"
                if (level, number) in needs:
                    try:
                        ask()
                    except ServerError as error:
                        raise Wrong(f"{what}: error {error.code}") from None
                else:
                    expect_error(41, what, ask)
        root.call(143, identifier("subject"))
        root.call(g.OP_DELETE_STREAM, identifier(stream))


@case
def users_and_tokens(ctx):
    """What ends with a user, a password and a token; no secret on the disk; the same after a restart."""
    server = ctx.another_server(
        ctx.work / "users", environment={"IGGY_PERSONAL_ACCESS_TOKEN_CLEANER_INTERVAL": "1s"}
    )

    def connect():
        return Client(server.address)

    def login(name, password):
        return connect().login(name, password)

    def login_by_token(token):
        client = connect()
        prefix = struct.pack("<I", g.PROTOCOL_VERSION) + str8("t") + str8("1")
        payload = client.call(g.OP_REGISTER, prefix + str8(token) + bytes(4))
        (_, client.session) = struct.unpack_from("<IQ", payload)
        return client

    def refused(what, code, act, *arguments):
        try:
            act(*arguments)
        except ServerError as error:
            expect(error.code == code, f"{what}: error {error.code}, not {code}")
            return
        raise Wrong(f"{what}: accepted")

    def create_token(client, name, lifetime_us=0):
        payload = client.call(146, str8(name) + struct.pack("<Q", lifetime_us))
        expect(len(payload) > 32 and payload[0] == len(payload) - 1, f"no token: {payload!r}")
        return payload[1:]

    def user_body(name, password, status=1):
        return str8(name) + str8(password) + bytes([status, 0])

    secrets = [b"pass1234", b"pass5678"]
    try:
        server.start()
        root = login("iggy", "iggy")
        stream = root.create_stream("guarded")
        root.call(141, user_body("alice", "pass1234"))
        refused("a second alice", 46, root.call, 141, user_body("alice", "pass1234"))
        refused("a short name", 43, root.call, 141, user_body("al", "pass1234"))
        refused("a short password", 44, root.call, 141, user_body("carol", "pa"))
        huge = b"".join(struct.pack("<I", i) + bytes(7) + b"\x01" for i in range(200_000))[:-1] + b"\0"
        huge = bytes(10) + b"\x01" + huge
        huge = b"\x01" + struct.pack("<I", len(huge)) + huge
        refused("permissions of 2 MiB", 3, root.call, 141, user_body("carol", "pass1234")[:-1] + huge)
        refused("permissions of 2 MiB", 3, root.call, 145, numeric(1) + huge)
        # Permissions that are there and say nothing; read again after the restart.
        nothing = bytes(10) + b"\x01" + struct.pack("<I", 9) + bytes(8)
        nothing = b"\x01" + struct.pack("<I", len(nothing)) + nothing
        root.call(141, user_body("dave", "pass1234")[:-1] + nothing)
        dave = root.read(31, identifier("dave"))
        expect(dave.endswith(nothing), f"the permissions of dave: {dave!r}")
        refused("deleting root", 48, root.call, 143, numeric(0))
        refused("restricting root", 49, root.call, 145, numeric(0) + b"\x00")

        alice = login("alice", "pass1234")
        refused("reading without a right", 41, alice.read, g.GET_STREAM, identifier(stream))
        refused("deleting without a right", 41, alice.call, g.OP_DELETE_STREAM, identifier(stream))
        refused("listing users", 41, alice.read, 32)
        expect(alice.read(31, identifier("alice"))[:4] == struct.pack("<I", 1), "alice does not see herself")
        refused("a wrong current password", 42, alice.call, 144, numeric(1) + str8("wrong") + str8("pass5678"))
        alice.call(144, identifier("alice") + str8("pass1234") + str8("pass5678"))
        refused("the old password", 42, login, "alice", "pass1234")
        login("alice", "pass5678").close()

        # Whoever logged in with the old password has to log in again; the one that asks goes on.
        others = [login("alice", "pass5678") for _ in range(4)]
        for other in others:
            other.read(31, numeric(1))
        alice.call(144, identifier("alice") + str8("pass5678") + str8("pass1234"))
        for other in others:
            refused("a session of the old password", 40, other.read, 31, numeric(1))
            other.login("alice", "pass1234")
            other.read(31, numeric(1))
        root.call(144, identifier("alice") + str8("pass1234") + str8("pass5678"))
        for other in (alice, *others):
            refused("a session of a password that root changed", 40, other.read, 31, numeric(1))
            other.close()
        alice = login("alice", "pass5678")

        # A repeated creation is not shown the token again.
        frame = alice.frame(146, str8("laptop") + bytes(8))
        alice.send_raw(frame)
        token = alice.take().payload()[1:]
        alice.send_raw(frame)
        refused("the same request again", 51, alice.take().payload)
        refused("the same name again", 51, create_token, alice, "laptop")
        short = create_token(alice, "short", 1_000_000)
        login_by_token(short).close()
        secrets += [token, short]
        for _ in range(10):
            login_by_token(token).close()
        time.sleep(1.2)
        refused("an expired token", 53, login_by_token, short)
        time.sleep(2.5)
        expect(b"short" not in alice.read(41), "the expired token was not removed")
        secrets.append(create_token(alice, "short"))

        root.call(142, identifier("alice") + b"\x00\x01\x02")
        refused("a retired user", 42, login, "alice", "pass5678")
        refused("an unknown user", 42, login, "nobody", "pass5678")
        refused("a token of a retired user", 40, login_by_token, token)
        refused("a session of a retired user", 40, alice.read, 41)
        root.call(142, identifier("alice") + b"\x00\x01\x01")

        server.stop()
        server.start()
        root = login("iggy", "iggy")
        expect(root.read(31, identifier("dave")) == dave, "dave after a restart")
        login("alice", "pass5678").close()
        refused("the old password after a restart", 42, login, "alice", "pass1234")
        alice = login_by_token(token)
        expect(alice.read(41).count(b"laptop") == 1, "the token is not listed after a restart")
        alice.call(147, str8("laptop"))
        for _ in range(10):
            refused("a deleted token", 53, login_by_token, token)
        root.call(143, identifier("alice"))
        refused("a session of a deleted user", 40, alice.read, 41)
        refused("a deleted user", 42, login, "alice", "pass5678")
        server.stop()
        for path in server.path.rglob("*"):
            data = path.read_bytes() if path.is_file() else b""
            for secret in secrets:
                expect(secret not in data, f"{secret!r} is in {path}")
    finally:
        server.end()


# ---- the runner ----------------------------------------------------------------------------------


def parse_arguments():
    parser = argparse.ArgumentParser(description="bad input against the real server")
    parser.error = lambda message: (print(f"bad_input_test: {message}", file=sys.stderr), sys.exit(1))
    parser.add_argument("--server", required=True, help="the galgo-server binary")
    parser.add_argument("--seed", type=int, default=1)
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
    arguments = parse_arguments()
    if arguments.work is not None:
        arguments.work.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="galgo-input.", dir=arguments.work))
    ctx = Context(arguments, work)
    again = f"python3 tests/crash/bad_input_test.py --server {arguments.server} --seed {arguments.seed}"
    passed, skipped, failed, status = 0, 0, [], 0
    try:
        ctx.start()
        for function in arguments.cases:
            began = time.monotonic()
            ctx.rng = random.Random(f"{arguments.seed}/{function.__name__}")
            try:
                function(ctx)
                ctx.check()
                print(f"ok   {function.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
                passed += 1
            except Skip as reason:
                skipped += 1
                print(f"SKIP {function.__name__}: {reason}", flush=True)
            except ServerFailure as failure:
                failed.append(function.__name__)
                status = 100
                print(f"FAIL {function.__name__}: {failure}", flush=True)
            except (Wrong, ServerError, ValueError, OSError) as fault:
                failed.append(function.__name__)
                status = status or 102
                print(f"FAIL {function.__name__}: {type(fault).__name__}: {fault}", flush=True)
            if not ctx.server.alive():
                raise ServerFailure("the server is gone")
        ctx.well_behaved.ending = True
        ctx.well_behaved.join(30)
        ctx.server.stop()
        report = ctx.server.sanitizer_report()
        if report:
            raise ServerFailure("sanitizer report at the end:\n" + report)
    except ServerFailure as failure:
        print(f"FAIL {failure}")
        failed.append("the server")
        status = 100
    finally:
        for server in ctx.servers:
            server.end()
    if failed:
        print(f"---- last lines of the server\n{ctx.server.log_tail()}\n----")
        print(f"kept: {work}\nagain: {again} {' '.join(name for name in failed if name != 'the server')}")
    else:
        shutil.rmtree(work)
    print(f"bad input: {passed} passed, {len(failed)} failed" + (f", {skipped} SKIPPED, see above" if skipped else ""))
    return status


if __name__ == "__main__":
    sys.exit(main())
