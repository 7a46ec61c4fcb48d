#!/usr/bin/env python3
"""kill -9 of the real server, again and again, on one data directory.

Each round: start, judge what is there, produce to four partitions (two shards, both durabilities)
until enough messages are acknowledged, SIGKILL at a random moment after that. Laws:
  - an acknowledged message is there after the restart, at its offset, unchanged;
  - no offset is confirmed twice;
  - what a reader has seen, acknowledged or not, is not taken back;
  - a stored consumer offset that was acknowledged is not lower afterwards, nor higher than any asked for;
  - a deleted stream does not come back, and its files go.
What was not acknowledged may or may not be there.

Every RENEW rounds all is compared, the streams are deleted and others take their place: the disk that a
run needs is that of RENEW rounds (12 MB each), however many there are.

Processes: this one (starts, kills, judges), four producers, one reader, and a logger which writes
each acknowledgement to `acknowledgements` before it counts. Messages are told apart by their frame
checksum, which the server never rewrites and which the client computes again from the bytes it polls.

Exit status: 0 fine, 1 usage, 100 the server crashed, hung or did not start, 102 a law is broken.
The seed fixes sizes and pauses; the interleaving is the machine's.
"""

import argparse
import array
import multiprocessing
import os
import random
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
sys.dont_write_bytecode = True

from galgo_client import (  # noqa: E402
    GET_STREAM,
    OP_DELETE_STREAM,
    Client,
    ServerError,
    build_batch,
    identifier,
    shard_of_partition,
)
from galgo_server import Server, ServerFailure  # noqa: E402

SHARDS = 2
SEGMENT_SIZE = 1 << 20
POLL_COUNT = 1000
SECONDS_ROUND_MAX = 90  # until the messages of a round are acknowledged
SECONDS_ANSWER_MAX = 80  # of one request; a sync on a busy disk takes its time
SECONDS_DELETE_MAX = 30  # until the files of deleted streams are gone
RECOVERY_KILL_EVERY = 5  # one restart in so many is killed as well
CONSUMERS = 4
ENCRYPTION = {
    "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true",
    "IGGY_SYSTEM_ENCRYPTION_KEY": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
}
PAUSE_BEYOND_SHARE = 0.01  # seconds between sends once a producer alone has sent what the round needs
CONTEXT = multiprocessing.get_context("fork")
NOISE = random.Random(0).randbytes(1 << 20)

ACKNOWLEDGED, SEEN = 1, 2


class Broken(Exception):
    """A law is broken."""


# ---- the log of what was confirmed ---------------------------------------------------------------
# One record a datagram, from any process; in the file each with its length in front.
#   A confirmed messages    S messages that a reader got    T store_offset sent    O store_offset confirmed
#   E something that must not happen (text)                 F flush: the logger answers on the pipe

RECORD = struct.Struct("<cBBQI")  # kind, partition, consumer, base offset, count


def record(kind, partition=0, consumer=0, base=0, checksums=()):
    head = RECORD.pack(kind, partition, consumer, base, len(checksums))
    return head + struct.pack(f"<{len(checksums)}Q", *checksums)


def log_records(inbox, path, counts, flushed):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(path, "ab", buffering=0) as file:
        while True:
            data = inbox.recv(1 << 18)
            if data[:1] == b"F":
                flushed.send(True)
                continue
            file.write(struct.pack("<I", len(data)) + data)
            if data[:1] == b"A":
                _, partition, _, _, count = RECORD.unpack_from(data)
                counts[partition] += count


# ---- producers and the reader --------------------------------------------------------------------


def make_batch(rng, next_id):
    """Mostly single messages, some batches, a few of the bulk path (64 KiB and more)."""
    draw = rng.random()
    if draw < 0.80:
        sizes = [rng.randint(20, 1024)]
    elif draw < 0.95:
        sizes = [rng.randint(20, 1024) for _ in range(rng.randint(10, 100))]
    elif draw < 0.99:
        sizes = [rng.randint(400, 1024) for _ in range(rng.randint(170, 500))]
    else:
        sizes = [rng.randint(66_000, 300_000)] + [rng.randint(20, 200) for _ in range(rng.randint(0, 5))]
    payloads = []
    for index, size in enumerate(sizes):
        start = rng.randrange(len(NOISE) - size)
        payloads.append(struct.pack("<Q", next_id + index) + NOISE[start : start + size - 8])
    return build_batch(payloads, 1_700_000_000_000_000 + next_id, next_id)


def produce(address, outbox, index, partition, seed, round_number, enough):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rng = random.Random(f"{seed}/{round_number}/{index}")
    next_id = (round_number << 40 | index << 36) + 1
    stream, topic, number = partition
    sent = 0
    try:
        with Client(address, SECONDS_ANSWER_MAX) as client:
            client.login()
            while True:
                if sent >= enough:  # another one is slow: a persisted topic on a busy disk
                    time.sleep(PAUSE_BEYOND_SHARE)
                batch = make_batch(rng, next_id)
                sent += len(batch.checksums)
                next_id += len(batch.checksums)
                base = client.send(stream, topic, number, batch)
                if base is None:
                    raise ValueError("a batch was confirmed without its offset")
                outbox.send(record(b"A", index, 0, base, batch.checksums))
    except TimeoutError:
        outbox.send(record(b"E") + f"producer of {partition}: no answer in {SECONDS_ANSWER_MAX} s".encode())
    except OSError:
        pass  # the kill
    except (ServerError, ValueError) as error:
        outbox.send(record(b"E") + f"producer of {partition}: {error}".encode())


def runs(messages):
    """Messages as (first offset, checksums) without gaps."""
    begin = 0
    for at in range(1, len(messages) + 1):
        if at == len(messages) or messages[at][0] != messages[at - 1][0] + 1:
            yield messages[begin][0], [message[1] for message in messages[begin:at]]
            begin = at


def read_and_store(address, outbox, partitions, positions, seed, round_number):
    """Follows all partitions and stores offsets, one consumer number at a time."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rng = random.Random(f"{seed}/{round_number}/reader")
    positions = list(positions)
    try:
        with Client(address, SECONDS_ANSWER_MAX) as client:
            client.login()
            while True:
                index = rng.randrange(len(partitions))
                stream, topic, number = partitions[index]
                messages = client.poll(stream, topic, number, positions[index], POLL_COUNT).messages
                if not messages:
                    time.sleep(0.002)
                    continue
                for first, checksums in runs(messages):
                    outbox.send(record(b"S", index, 0, first, checksums))
                positions[index] = messages[-1][0] + 1
                consumer = rng.randint(1, CONSUMERS)
                outbox.send(record(b"T", index, consumer, messages[-1][0]))
                client.store_offset(stream, topic, number, consumer, messages[-1][0])
                outbox.send(record(b"O", index, consumer, messages[-1][0]))
    except TimeoutError:
        outbox.send(record(b"E") + f"reader: no answer in {SECONDS_ANSWER_MAX} s".encode())
    except OSError:
        pass
    except (ServerError, ValueError) as error:
        outbox.send(record(b"E") + f"reader: {error}".encode())


# ---- the judge -----------------------------------------------------------------------------------


class Partition:
    """Everything known about one partition; arrays are indexed by offset."""

    def __init__(self, key, durability):
        self.key = key
        self.durability = durability
        self.checksums = array.array("Q")
        self.flags = bytearray()
        self.checked = 0  # offsets below were compared at least once after a restart
        self.acknowledged = 0
        self.stored = {}  # consumer -> [confirmed, highest asked for]

    def __str__(self):
        stream, topic, number = self.key
        shard = shard_of_partition(*self.key, SHARDS)
        return f"{stream}/{topic}/{number} ({self.durability}, shard {shard})"

    def grow(self, end):
        if end > len(self.flags):
            self.checksums.extend([0] * (end - len(self.flags)))
            self.flags.extend(bytes(end - len(self.flags)))


class Judge:
    def __init__(self, path, partitions):
        self.path = path
        self.partitions = partitions
        self.position = 0
        self.lost = self.changed = self.reissued = self.taken_back = self.offsets_lowered = 0
        self.compared = 0
        self.stray = []  # lines about faults, the first ones are printed

    def faults(self):
        return self.lost + self.changed + self.reissued + self.taken_back + self.offsets_lowered + len(self.stray)

    def note(self, line):
        if len(self.stray) < 1000:
            self.stray.append(line)

    def learn(self):
        """Takes over what the logger has written since the last call."""
        with open(self.path, "rb") as file:
            file.seek(self.position)
            data = file.read()
        self.position += len(data)
        at = 0
        while at < len(data):
            (size,) = struct.unpack_from("<I", data, at)
            at += 4
            kind, index, consumer, base, count = RECORD.unpack_from(data, at)
            partition = self.partitions[index]
            if kind == b"E":
                self.note(data[at + RECORD.size : at + size].decode())
            elif kind in b"TO":
                entry = partition.stored.setdefault(consumer, [None, -1])
                if kind == b"T":
                    entry[1] = max(entry[1], base)
                else:
                    entry[0] = base
            else:
                sums = struct.unpack_from(f"<{count}Q", data, at + RECORD.size)
                flag = ACKNOWLEDGED if kind == b"A" else SEEN
                self.learn_messages(partition, base, sums, flag)
            at += size

    def learn_messages(self, partition, base, sums, flag):
        partition.grow(base + len(sums))
        for offset, checksum in enumerate(sums, base):
            before = partition.flags[offset]
            if flag == ACKNOWLEDGED:
                partition.acknowledged += 1
                if before & ACKNOWLEDGED:
                    self.reissued += 1
                    self.note(f"{partition}: offset {offset} was confirmed a second time")
            if before and partition.checksums[offset] != checksum:
                self.changed += 1
                self.note(f"{partition}: offset {offset} names another message than before")
            partition.checksums[offset] = checksum
            partition.flags[offset] = before | flag

    def compare(self, client, partition, begin, end):
        """Reads [begin, end) and compares. With end None: to the end of the log, which then counts as seen."""
        at, found, twice = begin, set(), set()
        while end is None or at < end:
            try:
                polled = client.poll(*partition.key, at, POLL_COUNT if end is None else end - at)
            except (ServerError, ValueError) as error:
                self.note(f"{partition}: poll at {at}: {error}")
                break
            if not polled.messages:
                break
            for offset, checksum, _ in polled.messages:
                if offset < at:
                    self.note(f"{partition}: poll at {at} served {offset}")
                    return
                at = offset + 1
                found.add(offset)
                if checksum in twice:
                    self.note(f"{partition}: offset {offset} repeats an earlier message")
                twice.add(checksum)
                self.compared += 1
                partition.grow(offset + 1)
                if partition.flags[offset] and partition.checksums[offset] != checksum:
                    self.changed += 1
                    self.note(f"{partition}: offset {offset} is another message than the one confirmed")
                partition.checksums[offset] = checksum
                partition.flags[offset] |= SEEN
        limit = len(partition.flags) if end is None else min(end, len(partition.flags))
        missing = [offset for offset in range(begin, limit) if partition.flags[offset] and offset not in found]
        lost = [offset for offset in missing if partition.flags[offset] & ACKNOWLEDGED]
        self.lost += len(lost)
        self.taken_back += len(missing) - len(lost)
        if missing:
            self.note(
                f"{partition}: {len(lost)} confirmed and {len(missing) - len(lost)} visible messages are gone, "
                f"offsets {missing[0]}..{missing[-1]}, log ends before {at}"
            )

    def compare_offsets(self, client, partition):
        for consumer, (confirmed, asked) in partition.stored.items():
            stored = client.stored_offset(*partition.key, consumer)
            low = -1 if confirmed is None else confirmed
            if not low <= (-1 if stored is None else stored) <= asked:
                self.offsets_lowered += 1
                self.note(f"{partition}: consumer {consumer} stored {confirmed} (asked {asked}), now {stored}")

    def check(self, client, rng):
        """New messages, a sample of the old ones, consumer offsets."""
        for partition in self.partitions:
            old = partition.checked
            self.compare(client, partition, old, None)
            partition.checked = len(partition.flags)
            for _ in range(5 if old else 0):
                begin = rng.randrange(old)
                self.compare(client, partition, begin, min(old, begin + 50))
            self.compare_offsets(client, partition)

    def check_all(self, client):
        for partition in self.partitions:
            self.compare(client, partition, 0, None)
            self.compare_offsets(client, partition)


# ---- the rounds ----------------------------------------------------------------------------------


def make_partitions(client, generation):
    """One partition for each pair of shard and durability, the topics to get there, and {name: id} of their streams."""
    wanted, streams = {}, {}
    for stream_number in range(64):
        name = f"crash-{generation}-{stream_number}"
        stream = client.create_stream(name)
        streams[name] = stream
        for durability in ("replicated", "persisted"):
            topic = client.create_topic(
                stream,
                durability,
                4,
                durability=durability,
                consumer_offset_durability=durability,
                segment_size=SEGMENT_SIZE,
            )
            for number in range(4):
                place = (shard_of_partition(stream, topic, number, SHARDS), durability)
                wanted.setdefault(place, Partition((stream, topic, number), durability))
        if len(wanted) == 2 * SHARDS:
            return list(wanted.values()), streams
    raise Broken("no set of partitions on both shards")


def disk_of(folder):
    """Bytes that its files take."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def segments(client, partitions):
    total = 0
    for partition in partitions:
        stream, topic, number = partition.key
        total += next(row[1] for row in client.partitions(stream, topic) if row[0] == number)
    return total


class Run:
    def __init__(self, arguments, work):
        self.arguments = arguments
        self.server = Server(arguments.server, work / "data", SHARDS, ENCRYPTION if arguments.encryption else None)
        self.rng = random.Random(f"{arguments.seed}/main")
        self.log_path = work / "acknowledgements"
        self.log_path.touch()
        self.counts = CONTEXT.Array("Q", 2 * SHARDS)
        inbox, self.outbox = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.flushed, flushed = CONTEXT.Pipe(duplex=False)
        self.logger = CONTEXT.Process(
            target=log_records, args=(inbox, self.log_path, self.counts, flushed), daemon=True
        )
        self.logger.start()
        self.judge = None
        self.streams, self.deleted, self.generation = {}, [], 0
        self.workers = []
        self.rolls = self.rounds_with_roll = self.recovery_kills = 0
        self.confirmed = 0
        self.disk_max = 0

    def start(self):
        took = self.server.start()
        client = Client(self.server.address, timeout=60)
        client.login()
        return client, took

    def start_workers(self, round_number):
        partitions = self.judge.partitions
        seed, address = self.arguments.seed, self.server.address
        jobs = [
            (produce, (address, self.outbox, index, partition.key, seed, round_number, self.arguments.messages))
            for index, partition in enumerate(partitions)
        ]
        positions = [partition.checked for partition in partitions]
        keys = [partition.key for partition in partitions]
        jobs.append((read_and_store, (address, self.outbox, keys, positions, seed, round_number)))
        self.workers = [CONTEXT.Process(target=job, args=args, daemon=True) for job, args in jobs]
        for worker in self.workers:
            worker.start()

    def wait_for_messages(self, before):
        deadline = time.monotonic() + SECONDS_ROUND_MAX
        while True:
            self.check_workers()
            new = [now - then for now, then in zip(self.counts[:], before)]
            if sum(new) >= self.arguments.messages and min(new) > 0:
                return
            if time.monotonic() > deadline:
                raise ServerFailure(f"after {SECONDS_ROUND_MAX} s the partitions confirmed {new} messages")
            time.sleep(0.005)

    def check_workers(self):
        """Before the kill, nobody may have lost the server."""
        self.server.check_alive()
        if not all(worker.is_alive() for worker in self.workers):
            self.collect()
            raise Broken("a client lost its connection, or was refused, before the kill")

    def collect(self):
        """After this, the judge knows all that was confirmed."""
        for worker in self.workers:
            worker.join(0.05 if self.server.alive() else 60)
        self.outbox.send(record(b"F"))
        if not self.flushed.poll(60):
            raise Broken("the logger does not answer")
        self.flushed.recv()
        self.judge.learn()

    def check_report(self):
        report = self.server.sanitizer_report()
        if report:
            raise ServerFailure("the server's log holds a sanitizer report:\n" + report)

    def kill_recovery(self):
        """A server that is killed while it recovers leaves a directory that recovers as well."""
        self.server.spawn()
        time.sleep(self.rng.uniform(0.0, 0.6))
        self.server.kill()
        self.recovery_kills += 1

    def renew(self, client):
        """New streams in place of the old ones, of which all was compared; and a new log of what was confirmed."""
        if self.judge is None:
            self.judge = Judge(self.log_path, [])
        elif self.judge.partitions:
            self.judge.check_all(client)
            self.stop_at_fault()
            for name in self.streams:
                client.call(OP_DELETE_STREAM, identifier(name))
                self.deleted.append(name)
            os.truncate(self.log_path, 0)  # the logger appends; nobody writes to it now
            self.judge.position = 0
        self.judge.partitions, self.streams = make_partitions(client, self.generation)
        self.generation += 1
        for partition in self.judge.partitions:
            print(f"partition {partition}", flush=True)

    def check_deleted(self, client):
        for name in self.deleted:
            if client.read(GET_STREAM, identifier(name)):
                raise Broken(f"stream {name} was deleted and is back")

    def check_files_of_deleted(self):
        """By now there is nothing of a stream that is not there, in its place or in the trash."""
        path, deadline = self.server.path, time.monotonic() + SECONDS_DELETE_MAX
        while True:
            ids = {str(stream) for stream in self.streams.values()}
            left = [name for name in (path / "streams").glob("*/**/*") if name.is_file()]
            left = [name for name in left if name.relative_to(path / "streams").parts[0] not in ids]
            left += [name for name in (path / "trash").rglob("*") if name.is_file()]
            if not left:
                return
            if time.monotonic() > deadline:
                raise Broken(f"{len(left)} files of deleted streams are left after {SECONDS_DELETE_MAX} s: {left[0]}")
            time.sleep(0.1)

    def round(self, number):
        if number % RECOVERY_KILL_EVERY == RECOVERY_KILL_EVERY - 1:
            self.kill_recovery()
        client, took = self.start()
        with client:
            if self.judge is None:
                self.renew(client)
            compared = self.judge.compared
            self.judge.check(client, self.rng)
            compared = self.judge.compared - compared
            self.stop_at_fault()
            self.check_deleted(client)
            if number and number % self.arguments.renew == 0:
                self.renew(client)
            segments_before, before = segments(client, self.judge.partitions), self.counts[:]
            self.start_workers(number)
            self.wait_for_messages(before)
            rolls = segments(client, self.judge.partitions) - segments_before
            pause = self.rng.uniform(0.0, 0.3)
            time.sleep(pause)
            self.check_workers()
            self.server.kill()
        self.collect()
        self.check_report()
        self.disk_max = max(self.disk_max, disk_of(self.server.path.parent))
        new = sum(self.counts[:]) - sum(before)
        self.confirmed += new
        self.rolls += rolls
        self.rounds_with_roll += rolls > 0
        print(
            f"round {number}: up in {took:.2f} s, compared {compared}, confirmed {new} messages, "
            f"{rolls} segments rolled, killed {pause * 1000:.0f} ms later",
            flush=True,
        )
        self.stop_at_fault()

    def stop_at_fault(self):
        if self.judge.faults():
            raise Broken("see above")

    def last(self):
        """Everything once more after the last kill, and again after an orderly stop."""
        for how in ("the last kill", "an orderly stop"):
            client, took = self.start()
            with client:
                self.judge.check_all(client)
                self.check_deleted(client)
            self.check_files_of_deleted()
            self.check_report()
            print(f"all messages compared after {how} (up in {took:.2f} s)", flush=True)
            self.stop_at_fault()
            self.server.stop()
            self.check_report()

    def totals(self):
        judge = self.judge
        if judge is None:
            return
        for line in judge.stray[:20]:
            print("FAULT " + line)
        print(
            f"total: {self.confirmed} messages confirmed, {self.rolls} segments rolled in "
            f"{self.rounds_with_roll} rounds, {self.recovery_kills} recoveries killed, {judge.compared} compared; "
            f"{judge.lost} lost, {judge.changed} changed, {judge.reissued} offsets reissued, "
            f"{judge.taken_back} visible messages taken back, {judge.offsets_lowered} consumer offsets wrong; "
            f"{self.generation} times new streams, {self.disk_max >> 20} MiB of disk at most"
        )

    def close(self):
        self.server.end()
        for worker in [*self.workers, self.logger]:
            worker.kill()
            worker.join()


def parse_arguments():
    parser = argparse.ArgumentParser(description="kill -9 of the server in rounds on one data directory")
    parser.error = lambda message: (print(f"kill_test: {message}", file=sys.stderr), sys.exit(1))
    parser.add_argument("--server", required=True, help="the galgo-server binary")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--renew", type=int, default=50, help="rounds after which other streams take over")
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, printed")
    parser.add_argument("--work", type=Path, default=None, help="folder for data and logs; default: temporary")
    parser.add_argument("--messages", type=int, default=5000, help="acknowledged messages a round, at least")
    parser.add_argument("--encryption", action="store_true", help="messages are encrypted on disk")
    arguments = parser.parse_args()
    if not os.access(arguments.server, os.X_OK):
        parser.error(f"no server at {arguments.server}. Run: ./x build")
    if min(arguments.rounds, arguments.messages, arguments.renew) < 1:
        parser.error("--rounds, --messages and --renew start at 1")
    if arguments.seed is None:
        arguments.seed = int.from_bytes(os.urandom(4), "little")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.work is not None:
        arguments.work.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="galgo-crash.", dir=arguments.work))
    again = (
        f"python3 tests/crash/kill_test.py --server {arguments.server} --rounds {arguments.rounds} "
        f"--seed {arguments.seed} --messages {arguments.messages} --renew {arguments.renew}"
        + (" --encryption" if arguments.encryption else "")
    )
    print(f"seed {arguments.seed}", flush=True)
    run = Run(arguments, work)
    status = 102
    try:
        for number in range(arguments.rounds):
            run.round(number)
        run.last()
        status = 0
    except ServerFailure as failure:
        print(f"FAULT {failure}")
        status = 100
    except (Broken, ServerError, ValueError) as fault:
        print(f"FAULT {type(fault).__name__}: {fault}")
    except OSError as error:  # the judge's own connection
        print(f"FAULT the judge lost the server: {error}")
        status = 102 if run.server.alive() else 100
    finally:
        run.totals()
        run.close()
    if status == 0:
        shutil.rmtree(work)
    else:
        print(f"---- last lines of the server\n{run.server.log_tail()}\n----")
        print(f"kept: {work}\nagain: {again}")
    print(f"kill test: {int(status == 0)} passed, {int(status != 0)} failed")
    return status


if __name__ == "__main__":
    sys.exit(main())
