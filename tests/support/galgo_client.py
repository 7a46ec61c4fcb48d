"""A small client of the binary protocol for black-box tests: sockets and struct, no reconnecting.

It exists beside the published clients because tests need what those hide: prepared batches, raw and
broken frames, several requests in flight on one connection, the checksum of what was confirmed.
Layouts: wire: iggy_binary_protocol 0.11.0. Needs the PyPI package `xxhash`.

`python3 tests/support/galgo_client.py` compares it with bytes that the published crate made.
"""

import os
import socket
import struct
import time
from dataclasses import dataclass

import xxhash

HEADER_SIZE = 256
BATCH_HEADER_SIZE = 256
FRAME_HEADER_SIZE = 48

COMMAND_REQUEST, COMMAND_REPLY, COMMAND_EVICTION = 5, 8, 13
OP_REGISTER, OP_READ, OP_LOGOUT = 1, 2, 3
OP_CREATE_STREAM, OP_DELETE_STREAM = 128, 130
OP_CREATE_TOPIC, OP_UPDATE_TOPIC, OP_DELETE_TOPIC, OP_PURGE_TOPIC = 132, 133, 134, 135
OP_DELETE_SEGMENTS = 138
OP_CREATE_GROUP, OP_DELETE_GROUP, OP_JOIN_GROUP = 139, 140, 148
OP_CREATE_TOKEN = 146
OP_SEND_MESSAGES, OP_STORE_OFFSET, OP_DELETE_OFFSET = 160, 161, 162
PING, GET_STATS, GET_ME, POLL_MESSAGES, GET_OFFSET = 1, 10, 20, 100, 120
GET_STREAM, GET_STREAMS, GET_TOPIC = 200, 201, 300
CONSUMER, CONSUMER_GROUP = 1, 2  # who an offset belongs to
BY_OFFSET, BY_TIME, FIRST, LAST, NEXT = 1, 2, 3, 4, 5  # where a poll begins

TRANSIENT = (57, 58)  # the outcome is open; the same request may be sent again
PROTOCOL_VERSION = 11 << 10
U32_OPTIONS = ("messages_required_to_save",)


def xxh3(data):
    return xxhash.xxh3_64_intdigest(data)


class ServerError(Exception):
    """A typed refusal: status, result entry, or eviction (then `reason` is set)."""

    def __init__(self, code, reason=None):
        super().__init__(f"eviction {reason}" if reason is not None else f"error {code}")
        self.code = code
        self.reason = reason


# ---- values --------------------------------------------------------------------------------------


def numeric(number):
    return struct.pack("<BBI", 1, 4, number)


def str8(text):
    data = text.encode() if isinstance(text, str) else text
    return bytes([len(data)]) + data


def identifier(value):
    return numeric(value) if isinstance(value, int) else b"\x02" + str8(value)


def option(key, value):
    """One entry of an option block; numbers travel as u64, but for those of the catalogue that have 32 bits."""

    def field(kind, data):
        return struct.pack("<BI", kind, len(data)) + data

    if isinstance(value, bool):
        encoded = field(3, bytes([value]))
    elif key in U32_OPTIONS:
        encoded = field(11, struct.pack("<I", value))
    elif isinstance(value, int):
        encoded = field(12, struct.pack("<Q", value))
    else:
        encoded = field(2, value.encode())
    return field(2, key.encode()) + encoded


def shard_of_partition(stream, topic, partition, shard_count):
    """The shard which owns a partition: upper half of Murmur3 of the packed number."""
    value = stream << 32 | topic << 20 | partition
    h = 0
    for k in (value & 0xFFFFFFFF, value >> 32):
        k = k * 0xCC9E2D51 & 0xFFFFFFFF
        k = (k << 15 | k >> 17) & 0xFFFFFFFF
        h ^= k * 0x1B873593 & 0xFFFFFFFF
        h = (h << 13 | h >> 19) & 0xFFFFFFFF
        h = (h * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= 8
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return ((h ^ h >> 16) >> 16) % shard_count


# ---- batches -------------------------------------------------------------------------------------


@dataclass
class Batch:
    data: bytes
    checksums: list  # of each frame; the server never rewrites a frame, so they name the message


def batch_checksum(partition, base_offset, base_timestamp, origin, length, checksums):
    head = struct.pack("<QQQQQI", partition, base_offset, base_timestamp, origin, length, len(checksums))
    return xxh3(head + struct.pack(f"<{len(checksums)}Q", *checksums))


def build_batch(payloads, origin_us, id_first=1, headers=()):
    """`headers[i]`, where given, is the encoded header block of message i."""
    frames, checksums = [], []
    for index, payload in enumerate(payloads):
        extra = headers[index] if index < len(headers) else b""
        rest = (
            (id_first + index).to_bytes(16, "little")
            + struct.pack("<IIIIQ", index, 0, len(extra), len(payload), 0)
            + payload
            + extra
        )
        checksum = xxh3(rest)
        checksums.append(checksum)
        frames.append(struct.pack("<Q", checksum))
        frames.append(rest)
    body = b"".join(frames)
    length = BATCH_HEADER_SIZE + len(body)
    head = struct.pack(
        "<QQQQQQI", 0, 0, 0, origin_us, length, batch_checksum(0, 0, 0, origin_us, length, checksums), len(payloads)
    )
    return Batch(head.ljust(BATCH_HEADER_SIZE, b"\0") + body, checksums)


def send_body(stream, topic, partition, batch, count=None):
    target = (
        identifier(stream)
        + identifier(topic)
        + struct.pack("<BBI", 2, 4, partition)
        + struct.pack("<I", len(batch.checksums) if count is None else count)
    )
    return struct.pack("<I", len(target)) + target + batch.data


@dataclass
class Polled:
    partition: int
    current_offset: int
    messages: list  # of (offset, frame checksum, payload); every checksum was computed, not copied
    times: list  # of each message: when the server took it, microseconds


def parse_poll(body, with_payload=True):
    """Raises ValueError where the reply contradicts itself or a checksum is wrong."""
    partition, current, total = struct.unpack_from("<IQI", body)
    messages, times, at = [], [], 16
    view = memoryview(body)
    while at < len(body):
        if len(body) - at < BATCH_HEADER_SIZE:
            raise ValueError(f"{len(body) - at} bytes are left behind the last batch")
        stamped, base, stamp, origin, length, checksum, count = struct.unpack_from("<QQQQQQI", body, at)
        if length < BATCH_HEADER_SIZE or at + length > len(body):
            raise ValueError(f"batch at base offset {base}: length {length}")
        if any(view[at + 52 : at + BATCH_HEADER_SIZE]):
            raise ValueError(f"batch at base offset {base}: reserved bytes are set")
        end, frame, sums = at + length, at + BATCH_HEADER_SIZE, []
        for _ in range(count):
            if frame + FRAME_HEADER_SIZE > end:
                raise ValueError(f"batch at base offset {base}: frames run over")
            claimed, delta = struct.unpack_from("<Q16xI", body, frame)
            extra, payload = struct.unpack_from("<II", body, frame + 32)
            size = FRAME_HEADER_SIZE + payload + extra
            if frame + size > end:
                raise ValueError(f"message {base + delta}: runs over its batch")
            if xxh3(view[frame + 8 : frame + size]) != claimed:
                raise ValueError(f"message {base + delta}: wrong checksum")
            start = frame + FRAME_HEADER_SIZE
            messages.append((base + delta, claimed, bytes(view[start : start + payload]) if with_payload else None))
            times.append(stamp)
            sums.append(claimed)
            frame += size
        if frame != end:
            raise ValueError(f"batch at base offset {base}: frames do not fill it")
        if batch_checksum(stamped, base, stamp, origin, length, sums) != checksum:
            raise ValueError(f"batch at base offset {base}: wrong checksum")
        at = end
    if len(messages) != total:
        raise ValueError(f"reply names {total} messages and holds {len(messages)}")
    return Polled(partition, current, messages, times)


# ---- connection ----------------------------------------------------------------------------------


@dataclass
class Reply:
    command: int
    operation: int
    status: int
    request: int
    reason: int
    body: bytes

    def payload(self):
        """The body without its result section, or ServerError."""
        if self.command == COMMAND_EVICTION:
            codes = {9: 42, 10: 53, 13: 30, 14: 14003, 15: 4, 4: 3, 5: 3, 6: 3}
            raise ServerError(codes.get(self.reason, 40), self.reason)
        if self.status != 0:
            raise ServerError(self.status)
        framed = self.operation not in (OP_READ, OP_LOGOUT, OP_SEND_MESSAGES, OP_DELETE_SEGMENTS)
        if not framed:
            return self.body
        if len(self.body) < 4:
            raise ValueError(f"operation {self.operation}: reply without a result section")
        (entries,) = struct.unpack_from("<I", self.body)
        if entries:
            raise ServerError(struct.unpack_from("<I", self.body, 8)[0])
        return self.body[4:]


def request_header(client, operation, body_size, request, session, code=0, checksum=0, size=None, command=COMMAND_REQUEST):
    size = HEADER_SIZE + body_size if size is None else size
    head = bytearray(HEADER_SIZE)
    struct.pack_into("<I", head, 48, size)
    head[60] = command
    head[128:144] = client.to_bytes(16, "little")
    head[144:160] = checksum.to_bytes(16, "little")
    struct.pack_into("<QB", head, 168, request, operation)
    struct.pack_into("<Q", head, 184, session)
    struct.pack_into("<I", head, 196, code)
    return bytes(head)


class Client:
    """One connection. `call` awaits the answer; `post` and `take` pipeline."""

    def __init__(self, address, timeout=30.0, client=None, receive_buffer=None):
        host, port = address.rsplit(":", 1)
        self.client = client or int.from_bytes(os.urandom(16), "little") | 1
        self.session, self.request = 0, 1
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect((host, int(port)))
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    # -- frames

    def send_raw(self, data):
        self.socket.sendall(data)

    def _read(self, size):
        parts, left = [], size
        while left:
            part = self.socket.recv(min(left, 1 << 20))
            if not part:
                raise ConnectionError("closed by the server")
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def take_bytes(self):
        """One frame as it came."""
        head = self._read(HEADER_SIZE)
        (size,) = struct.unpack_from("<I", head, 48)
        command = head[60]
        if size < HEADER_SIZE or command not in (COMMAND_REPLY, COMMAND_EVICTION):
            raise ValueError(f"reply of size {size} with command {command}")
        return head + self._read(size - HEADER_SIZE)

    def take(self):
        data = self.take_bytes()
        command, body = data[60], data[HEADER_SIZE:]
        if command == COMMAND_EVICTION:
            return Reply(command, 0, 0, 0, data[255], body)
        (request, operation) = struct.unpack_from("<QB", data, 200)
        (status,) = struct.unpack_from("<I", data, 216)
        return Reply(command, operation, status, request, 0, body)

    def frame(self, operation, body=b"", code=0, **fields):
        """One request as bytes. Everything but a read takes a request number of its own."""
        request = 0 if operation == OP_REGISTER else self.request
        if operation not in (OP_REGISTER, OP_READ):
            self.request += 1
        if operation < OP_SEND_MESSAGES and operation != OP_READ:
            fields.setdefault("checksum", xxh3(body))
        fields.setdefault("request", request)
        fields.setdefault("session", 0 if operation == OP_REGISTER else self.session)
        fields.setdefault("client", self.client)
        return request_header(operation=operation, body_size=len(body), code=code, **fields) + body

    def post(self, operation, body=b"", code=0, **fields):
        self.send_raw(self.frame(operation, body, code, **fields))

    def ask(self, operation, body=b"", code=0, **fields):
        self.post(operation, body, code, **fields)
        return self.take()

    def call(self, operation, body=b"", code=0, attempts=200):
        """The payload of the answer. A transient refusal is sent again, unchanged, up to 10 s."""
        data = self.frame(operation, body, code)
        while True:
            self.send_raw(data)
            try:
                return self.take().payload()
            except ServerError as error:
                attempts -= 1
                if error.code not in TRANSIENT or attempts <= 0:
                    raise
            time.sleep(0.05)

    def read(self, code, body=b""):
        return self.call(OP_READ, body, code)

    # -- commands

    @staticmethod
    def login_body(username, password):
        return (
            struct.pack("<I", PROTOCOL_VERSION)
            + str8("galgo-test")
            + str8("0.11.0")
            + str8(username)
            + str8(password)
            + struct.pack("<I", 0)
        )

    def login(self, username="iggy", password="iggy"):
        payload = self.call(OP_REGISTER, self.login_body(username, password))
        (_, self.session) = struct.unpack_from("<IQ", payload)
        self.request = 1
        return self

    def create_token(self, name, lifetime_us=0):
        """A personal access token; 0: it does not expire."""
        payload = self.call(OP_CREATE_TOKEN, str8(name) + struct.pack("<Q", lifetime_us))
        return payload[1 : 1 + payload[0]]

    def login_by_token(self, token):
        """Without the work that a password takes, which waits for a CPU that nobody else wants."""
        head = struct.pack("<I", PROTOCOL_VERSION) + str8("galgo-test") + str8("0.11.0")
        payload = self.call(OP_REGISTER, head + str8(token) + struct.pack("<I", 0))
        (_, self.session) = struct.unpack_from("<IQ", payload)
        self.request = 1
        return self

    def ping(self):
        return self.read(PING)

    def create_stream(self, name):
        return struct.unpack_from("<I", self.call(OP_CREATE_STREAM, str8(name)))[0]

    def create_topic(self, stream, name, partitions, **options):
        options.setdefault("durability", "replicated")
        options.setdefault("consumer_offset_durability", "replicated")
        body = identifier(stream) + struct.pack("<I", partitions) + str8(name)
        body += b"".join(option(key, value) for key, value in sorted(options.items()))
        return struct.unpack_from("<I", self.call(OP_CREATE_TOPIC, body))[0]

    def delete_topic(self, stream, topic):
        self.call(OP_DELETE_TOPIC, identifier(stream) + identifier(topic))

    def update_topic(self, stream, topic, name, **options):
        body = identifier(stream) + identifier(topic) + str8(name)
        body += b"".join(option(key, value) for key, value in sorted(options.items()))
        self.call(OP_UPDATE_TOPIC, body)

    def purge_topic(self, stream, topic):
        self.call(OP_PURGE_TOPIC, identifier(stream) + identifier(topic))

    @staticmethod
    def delete_segments_body(stream, topic, partition, count):
        return identifier(stream) + identifier(topic) + struct.pack("<II", partition, count)

    def delete_segments(self, stream, topic, partition, count):
        self.call(OP_DELETE_SEGMENTS, self.delete_segments_body(stream, topic, partition, count))

    def partitions(self, stream, topic):
        """(id, segments, current offset, messages) of each partition."""
        body = self.read(GET_TOPIC, identifier(stream) + identifier(topic))
        if not body:
            raise ServerError(2010)
        (count,) = struct.unpack_from("<I", body, 12)
        rows = []
        for index in range(count):
            row = struct.unpack_from("<IQIQQQ", body, len(body) - 40 * (count - index))
            rows.append((row[0], row[2], row[3], row[5]))
        return rows

    def post_batch(self, stream, topic, partition, batch):
        self.post(OP_SEND_MESSAGES, send_body(stream, topic, partition, batch))

    def send(self, stream, topic, partition, batch):
        """The offset of the first message."""
        reply = self.call(OP_SEND_MESSAGES, send_body(stream, topic, partition, batch))
        if not reply:
            return None
        count, _, _, _, base = struct.unpack_from("<IIIIQ", reply)
        if count != 1:
            raise ValueError(f"{count} confirmations of one batch")
        return base

    @staticmethod
    def poll_body(stream, topic, partition, offset, count, consumer=1, kind=1, auto_commit=0):
        return (
            b"\x01"
            + numeric(consumer)
            + identifier(stream)
            + identifier(topic)
            + struct.pack("<BIBQIB", 1, partition, kind, offset, count, auto_commit)
        )

    def poll(self, stream, topic, partition, offset, count, with_payload=False, **more):
        body = self.poll_body(stream, topic, partition, offset, count, **more)
        return parse_poll(self.read(POLL_MESSAGES, body), with_payload)

    @staticmethod
    def offset_body(stream, topic, partition, consumer, consumer_kind=CONSUMER):
        who = bytes([consumer_kind]) + identifier(consumer)
        return who + identifier(stream) + identifier(topic) + struct.pack("<BI", 1, partition)

    def store_offset(self, stream, topic, partition, consumer, offset, **more):
        body = self.offset_body(stream, topic, partition, consumer, **more) + struct.pack("<QB", offset, 1)
        self.call(OP_STORE_OFFSET, body)

    def delete_offset(self, stream, topic, partition, consumer):
        self.call(OP_DELETE_OFFSET, self.offset_body(stream, topic, partition, consumer) + b"\x01")

    def offsets(self, stream, topic, partition, consumer, **more):
        """(current offset of the partition, stored offset), or None when nothing is stored."""
        body = self.read(GET_OFFSET, self.offset_body(stream, topic, partition, consumer, **more))
        return struct.unpack_from("<IQQ", body)[1:] if body else None

    def stored_offset(self, stream, topic, partition, consumer, **more):
        found = self.offsets(stream, topic, partition, consumer, **more)
        return found[1] if found else None


def self_check():
    """Against bytes made by iggy_binary_protocol 0.11.0."""
    assert xxh3(b"") == 0x2D06800538D394C2
    places = {(0, 0, 0): 1, (0, 0, 1): 3, (0, 1, 0): 1, (7, 3, 42): 1, (1, 0, 0): 0, (1048575, 4095, 999999): 2}
    for key, shard in places.items():
        assert shard_of_partition(*key, 4) == shard, key
    header = struct.pack("<BI", 2, 1) + b"k" + struct.pack("<BII", 11, 4, 7)
    two = bytearray(build_batch([b"hello", b"hi"], 1_700_000_000_000_000, headers=[b"", header]).data)
    assert len(two) == 374
    first, second = struct.unpack_from("<Q", two, 256)[0], struct.unpack_from("<Q", two, 256 + 53)[0]
    assert first == 0xB9BFBDDB9EA55C8E, hex(first)
    struct.pack_into("<I", two, 256 + 53 + 28, 5)  # the example's second message is 5 us younger
    second = xxh3(bytes(two[256 + 53 + 8 :]))
    assert second == 0x07DF60CFDE56D884, hex(second)
    assert batch_checksum(0, 0, 0, 1_700_000_000_000_000, 374, [first, second]) == 0xFA921092F3A72BFD
    assert batch_checksum(0, 42, 1_700_000_000_100_000, 1_700_000_000_000_000, 374, [first, second]) == 0x4A198AB10E0E955D
    print("galgo_client: equal to the published bytes")


if __name__ == "__main__":
    self_check()
