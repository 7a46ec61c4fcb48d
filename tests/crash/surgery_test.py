#!/usr/bin/env python3
"""Surgery on data directories: one damage to one file, then a start that has to tell or to mend it.

Two directories are built once, one of a server that was stopped and one of a server that was killed with
messages in its journals: several topics of both durabilities, sealed segments of 1 MiB, a purged topic,
stored offsets of consumers and groups, two snapshots of the metadata. Then for each case: copy, one damage,
start, judge, kill -9, start, judge. Three outcomes are right:
  - healed: every acknowledged message is there, exact, stored offsets too, appends are taken;
  - told: only partitions whose files were touched miss something; a poll at each message that is not there
    has a typed error, none is passed over in silence; appends are refused by type, or get an offset that
    was never confirmed; all other partitions work as if nothing had happened;
  - refused: the server ends with status 1 and one line that names the file and a remedy, and the directory
    is what it was.
Everything else is a finding, among it: silent loss, an offset that is given again, other bytes, a crash, a
hang. After the second start nothing may be worse than after the first.

    tests/crash/surgery_test.py --server BIN [--sample N | --all] [--seed N] [--jobs N] [--work DIR] [TEXT...]

With TEXT only cases whose name holds all of them, from the whole matrix; `--list` shows names.
Exit status: 0 fine, 1 usage, 100 a crash, a hang, a sanitizer report, 102 another finding.
"""

import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
sys.dont_write_bytecode = True

from galgo_client import (  # noqa: E402
    CONSUMER,
    CONSUMER_GROUP,
    NEXT,
    OP_CREATE_GROUP,
    OP_CREATE_STREAM,
    OP_JOIN_GROUP,
    OP_PURGE_TOPIC,
    OP_READ,
    OP_SEND_MESSAGES,
    POLL_MESSAGES,
    Client,
    ServerError,
    build_batch,
    identifier,
    parse_poll,
    send_body,
    shard_of_partition,
    str8,
    xxh3,
)
from galgo_server import Server, ServerFailure  # noqa: E402

SHARDS = 2
ORIGIN = 1_700_000_000_000_000
SEGMENT_SIZE = 1 << 20
PAGE = 4096
INDEX_ENTRY = 24
# name: (durability, partitions, bytes of a partition)
TOPICS = {
    "replicated": ("replicated", 2, 2_600_000),
    "persisted": ("persisted", 2, 2_600_000),
    "purged": ("persisted", 1, 1_400_000),
    "small": ("persisted", 1, 2000),
}
ENVIRONMENT = {"IGGY_METADATA_JOURNAL_SLOTS": "256"}  # two snapshots of the metadata after 256 changes
FILLER_STREAMS = 280

CANNOT_STORE, CANNOT_APPEND, CANNOT_READ, WRONG_CHECKSUM, WRONG_BATCH_CHECKSUM = 3020, 4010, 4011, 4027, 4039
READ_REFUSALS = {CANNOT_READ, WRONG_CHECKSUM, WRONG_BATCH_CHECKSUM}
SEND_REFUSALS = {CANNOT_APPEND}
# What a line that refuses a start may advise.
REMEDY = re.compile(r"restor|remov|delet|move|repair|purge|give up|put .* back|free|set |use |start ", re.IGNORECASE)

# What cannot be told from the files of the directory that is damaged. Under --all these cases are judged by
# the same law; the sample leaves them out until there is evidence elsewhere. The value says what is missing.
WITHOUT_EVIDENCE = {
    "directory": "nothing outside of a partition's directory says that there was one, whose it was, and where it ended",
    "tail": "nothing says that the log went on behind the last index entry, once the journal was released",
    "offset file": "nothing says that a consumer had stored an offset, once the journal was released",
    "journal file": "a journal that was deleted looks like one that was released",
    "journal tail": "a record that no later one calls synced looks like one that was being written when the server died",
}


class Finding(Exception):
    """The law is broken; the text begins with the kind of finding."""


# ---- the directories -----------------------------------------------------------------------------


class Template:
    """What was built: where, and all that was acknowledged."""

    def __init__(self, mode, path):
        self.mode = mode
        self.path = path
        self.stream = None
        self.topics = {}
        self.acked = {}  # (topic name, partition) -> {offset: checksum}
        self.stored = {}  # the same -> {(consumer kind, consumer): offset}

    def keys(self):
        return [(name, partition) for name, (_, count, _) in TOPICS.items() for partition in range(count)]

    def place(self, key):
        return self.stream, self.topics[key[0]], key[1]

    def folder(self, key):
        return "streams/{}/topics/{}/partitions/{}".format(*self.place(key))

    def shard(self, key):
        return shard_of_partition(*self.place(key), SHARDS)


class Builder:
    """Fills a directory by way of a server, and writes down what was acknowledged."""

    def __init__(self, binary, template):
        self.rng = random.Random(5)
        self.template = template
        self.server = Server(binary, template.path, shards=SHARDS, environment=ENVIRONMENT)

    def send(self, client, key, sizes):
        """Each payload says where it belongs, so that no two messages are equal."""
        known = self.template.acked.setdefault(key, {})
        payloads = [f"{key} {len(known) + n} ".encode().ljust(size, b".") for n, size in enumerate(sizes)]
        batch = build_batch(payloads, ORIGIN, id_first=self.rng.getrandbits(60))
        base = client.send(*self.template.place(key), batch)
        known.update(enumerate(batch.checksums, base))

    def store(self, client, key, *numbers):
        for kind, consumer, offset in numbers:
            client.store_offset(*self.template.place(key), consumer, offset, consumer_kind=kind)
            self.template.stored.setdefault(key, {})[kind, consumer] = offset

    def fill(self, client, key, size):
        rng = self.rng
        while size > 0:
            draw = rng.random()
            if size < 10_000 or draw < 0.3:
                sizes = [rng.randint(50, 900)]
            elif draw < 0.9:
                sizes = [rng.randint(800, 1200) for _ in range(rng.randint(20, 60))]
            elif draw < 0.97:
                sizes = [rng.randint(900, 1200) for _ in range(100)]
            else:
                sizes = [150_000]  # past the journal
            self.send(client, key, sizes)
            size -= sum(sizes)

    def make_everything(self, client):
        template = self.template
        template.stream = client.create_stream("s")
        for name, (durability, count, _) in TOPICS.items():
            template.topics[name] = client.create_topic(
                template.stream, name, count,
                durability=durability, consumer_offset_durability=durability, segment_size=SEGMENT_SIZE,
            )
        for first in range(0, FILLER_STREAMS, 10):
            for number in range(first, first + 10):
                client.post(OP_CREATE_STREAM, str8(f"filler {number}"))
            for _ in range(10):
                client.take().payload()
        self.fill(client, ("purged", 0), 300_000)
        client.call(OP_PURGE_TOPIC, identifier(template.stream) + identifier("purged"))
        template.acked.pop(("purged", 0))
        for name in TOPICS:
            where = identifier(template.stream) + identifier(name)
            client.call(OP_CREATE_GROUP, where + str8("g"))
            client.call(OP_JOIN_GROUP, where + identifier("g"))
        for number, key in enumerate(template.keys()):
            self.fill(client, key, TOPICS[key[0]][2])
            offsets = (0, 1, 0) if key[0] == "small" else (10 + number, 20 + number, 30 + number)  # no two are equal
            self.store(client, key, *zip((CONSUMER, CONSUMER, CONSUMER_GROUP), (1, 2, "g"), offsets))
        time.sleep(1.5)  # a checkpoint of the stored offsets is written each second

    def run(self, work, end):
        """One life of the server; how it ends."""
        try:
            self.server.start()
            with Client(self.server.address).login() as client:
                work(client)
                if end == "kill":
                    self.server.kill()
            if end == "stop":
                self.server.stop()
            report = self.server.sanitizer_report()
            if report:
                raise ServerFailure(report)
        finally:
            self.server.end()


def build(binary, work):
    """{"stop": template, "kill": template}; the second one went on from the first, so its segments are sound."""
    stopped, killed = (Template(mode, work / mode) for mode in ("stop", "kill"))
    builder = Builder(binary, stopped)
    builder.run(builder.make_everything, "stop")
    copy_tree(stopped.path, killed.path)
    killed.stream, killed.topics = stopped.stream, stopped.topics
    killed.acked = {key: dict(known) for key, known in stopped.acked.items()}
    killed.stored = {key: dict(known) for key, known in stopped.stored.items()}
    builder = Builder(binary, killed)

    def send_more(client):  # what only the journals have
        for number, key in enumerate(killed.keys()):
            for _ in range(12):
                builder.send(client, key, [builder.rng.randint(50, 900) for _ in range(builder.rng.randint(1, 3))])
            builder.store(client, key, (CONSUMER, 1, 2 if key[0] == "small" else 40 + number))

    builder.run(send_more, "kill")
    return {"stop": stopped, "kill": killed}


def copy_tree(source, target):
    subprocess.run(["cp", "-a", "--sparse=always", str(source), str(target)], check=True)


# ---- damages -------------------------------------------------------------------------------------
# Each one is a function of (directory, rng) that changes it.


def batches_of(data):
    """Where each batch of a log begins."""
    at, places = 0, []
    while at + 40 <= len(data):
        places.append(at)
        (length,) = struct.unpack_from("<Q", data, at + 32)
        if length < 256:
            break
        at += length
    return places


def journal_synced(data):
    """The bytes of a journal that its own records call synced."""
    at, synced = 64, 64
    while data[at : at + 4] == b"GRJ1":
        synced = max(synced, struct.unpack_from("<Q", data, at + 104)[0])
        at += 128 + struct.unpack_from("<I", data, at + 88)[0]
    return synced


def used_bytes(data):
    """Without the zeros that a file was made with."""
    return max(1, len(data.rstrip(b"\0")))


def truncate(path, size):
    return lambda root, rng: os.truncate(root / path, size)


def overwrite(path, at, data):
    def damage(root, rng):
        with open(root / path, "r+b") as file:
            file.seek(at)
            file.write(data)

    return damage


def flip(path, position):
    """`position(rng)` gives the byte."""

    def damage(root, rng):
        at = position(rng)
        with open(root / path, "r+b") as file:
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ 1 << rng.randrange(8)]))

    return damage


def append(path, data):
    def damage(root, rng):
        with open(root / path, "ab") as file:
            file.write(data)

    return damage


def exchange(one, other):
    def damage(root, rng):
        (root / one).rename(root / "exchanged")
        (root / other).rename(root / one)
        (root / "exchanged").rename(root / other)

    return damage


def copy_over(source, target):
    def damage(root, rng):
        if (root / source).is_dir():
            shutil.rmtree(root / target, ignore_errors=True)
            shutil.copytree(root / source, root / target)
        else:
            shutil.copyfile(root / source, root / target)

    return damage


def remove(path):
    def damage(root, rng):
        if (root / path).is_dir():
            shutil.rmtree(root / path)
        else:
            (root / path).unlink()

    return damage


def make(path, data):
    return lambda root, rng: (root / path).write_bytes(data)


class Case:
    def __init__(self, template, target, damage, apply, touched, files, evidence=None):
        self.name = f"{template.mode}/{target}/{damage}"
        self.stratum = (template.mode, re.sub(r" \S*\d+$", "", target), damage.split(" at ")[0])
        self.mode = template.mode
        self.apply = apply
        self.touched = frozenset(touched)
        self.files = files  # names, one of which a refusal has to say
        self.evidence = evidence
        self.must_heal = " index " in target and "a copy" not in damage  # it is derived from the log beside it
        self.shared = target.startswith("journal")  # records of all partitions of a shard


class Target:
    """One file, whose it is, and others of its kind to exchange it with."""

    def __init__(self, name, path, touched, siblings=(), evidence_of_removal=None, strangers=()):
        self.name = name
        self.path = path
        self.touched = set(touched)
        self.siblings = list(siblings)  # (what, path, keys that are touched as well, class without evidence)
        self.evidence_of_removal = evidence_of_removal
        self.strangers = list(strangers)  # names under which a copy of it may turn up


def partition_targets(template):
    for number, key in enumerate(template.keys()):
        if key[0] == "small" or key[1] == 1:
            continue  # what others are exchanged with
        folder = template.folder(key)
        text = f"{key[0]}-{key[1]}"
        twin = (key[0], 1)
        stranger = ("persisted" if key[0] == "replicated" else "replicated", 0)
        logs = sorted(path.name for path in (template.path / folder).glob("*.log"))
        neighbours = {
            name: sorted(path.name for path in (template.path / template.folder(name)).glob("*.log"))
            for name in (twin, stranger)
            if name in template.acked
        }
        chosen = {"last log": -1, "first log": 0} | ({"sealed log": 1} if len(logs) > 2 else {})
        for what, index in chosen.items():
            siblings = []
            for other, names in neighbours.items():
                where = "its twin" if other == twin else "another topic"
                place = f"{template.folder(other)}/{names[min(index, len(names) - 1)]}"
                siblings.append((where, place, {other}))
            siblings.append(("its neighbour", f"{folder}/{logs[index - 1 if index else 1]}", set()))
            start = int(logs[index].removesuffix(".log"))
            names = [f"{folder}/{start + more:020}.log" for more in (1, 7, 1 << 40)]
            yield Target(f"{what} {text}", f"{folder}/{logs[index]}", {key}, siblings, strangers=names)
            ending = lambda path: path.removesuffix("log") + "index"  # noqa: E731
            yield Target(
                f"{what.split()[0]} index {text}",
                ending(f"{folder}/{logs[index]}"),
                {key},
                [(where, ending(place), keys) for where, place, keys in siblings],
                strangers=[ending(name) for name in names],
            )
        for what, name, other in (
            ("consumer offset", "offsets/consumers/1", "offsets/consumers/2"),
            ("group offset", "offsets/groups/0", "offsets/consumers/2"),
            ("mark", "offsets/checkpoint", "offsets/consumers/2"),
            ("incarnation", "incarnation", "offsets/checkpoint"),
            ("retained", "retained", "offsets/checkpoint"),
        ):
            if not (template.path / folder / name).exists():
                continue
            siblings = [("a file beside", f"{folder}/{other}", set())]
            for where, other in (("its twin", twin), ("another topic", stranger)):
                # The partitions of a topic have one incarnation.
                if other in template.acked and (what, other) != ("incarnation", twin):
                    siblings.append((where, f"{template.folder(other)}/{name}", {other}))
            yield Target(
                f"{what} {text}", f"{folder}/{name}", {key}, siblings,
                evidence_of_removal="offset file" if "offset" in what else None,
                strangers=[f"{folder}/offsets/consumers/9", f"{folder}/offsets/consumers/x"],
            )


def shared_targets(template):
    def files(pattern):
        return sorted(str(path.relative_to(template.path)) for path in template.path.glob(pattern))

    journals = files("state/journal-*.wal")
    for path in journals:
        shard = int(path.split("-")[1])
        keys = {key for key in template.keys() if template.shard(key) == shard}
        others = [
            ("another journal", other, {key for key in template.keys() if template.shard(key) == int(other.split("-")[1])})
            for other in journals
            if other != path
        ][:2]
        stranger = re.sub(r"-(\d+)\.wal", lambda found: f"-{int(found[1]) + 5:016}.wal", path)
        number = int(re.search(r"-(\d+)\.wal", path)[1])
        if used_bytes((template.path / path).read_bytes()) < 100:
            continue  # a header at most: not used
        yield Target(f"journal {shard}-{number}", path, keys, others, "journal file", [stranger])
    for pattern, what in (("state/ledger-*", "ledger"), ("metadata/journal.wal*", "wal"), ("metadata/snapshot.*", "snapshot")):
        paths = files(pattern)
        for number, path in enumerate(paths):
            others = [("its sibling", other, set()) for other in paths if other != path][:2]
            stranger = re.sub(r"(\d+)$", lambda found: str(int(found[1]) + 3).zfill(len(found[1])), path)
            yield Target(f"{what} {number}", path, (), others, strangers=[stranger] if stranger != path else [])
    for path in ("metadata/superblock", "FORMAT"):
        if (template.path / path).exists():
            yield Target(path.split("/")[-1], path, ())


def file_cases(template, target):
    path = target.path
    data = (template.path / path).read_bytes()
    used, size = used_bytes(data), len(data)
    log = path.endswith(".log")
    batches = batches_of(data) if log else []
    names = {Path(path).name}

    def case(damage, apply, evidence=None, touched=(), more=()):
        files = names | {Path(name).name for name in more}
        return Case(template, target.name, damage, apply, target.touched | set(touched), files, evidence)

    places = {"to nothing": 0, "to a byte": 1, "to a quarter": used // 4, "to a half": used // 2, "by a byte": used - 1}
    if log:
        middle = batches[len(batches) // 2]
        places = {
            "to nothing": 0,
            "to a piece of its first header": 100,
            "at a batch in the middle": middle,
            "within a batch in the middle": middle + 300,
            "at its last batch": batches[-1],
            "by a byte": size - 1,
        }
    elif size > used:  # made longer than it is used
        places |= {"to half of the file": size // 2, "by a page": size - PAGE}
    index = (template.path / path).with_suffix(".index") if log else None
    stands = 0  # the end of the log as its index tells it
    if index and index.exists():
        entries = index.read_bytes()
        (at,) = struct.unpack_from("<I", entries, len(entries) - len(entries) % INDEX_ENTRY - 8)
        stands = at + struct.unpack_from("<Q", data, at + 32)[0]
    # Damage from `told` on may be the trace of a crash.
    told, tail = used, None
    if log and stands < used:
        told, tail = stands, "tail"
    elif target.name.startswith("journal") and template.mode == "kill":
        told, tail = journal_synced(data), "journal tail"
    seen = set()
    for what, at in places.items():
        if 0 <= at < size and at not in seen:
            seen.add(at)
            yield case(f"truncated {what}", truncate(path, at), tail if log and at >= told else None)
    pages = {"first": 0, "last": (used - 1) // PAGE, "middle": used // 2 // PAGE, "second": 1, "last but one": (used - 1) // PAGE - 1}
    for what, page in pages.items():
        piece = data[page * PAGE : (page + 1) * PAGE] if page >= 0 else b""
        if any(piece) and page not in seen:
            seen.add(page)
            evidence = tail if (page + 1) * PAGE > told else None
            yield case(f"zeros in its {what} page", overwrite(path, page * PAGE, bytes(len(piece))), evidence)
    flips = 20 if size >= PAGE else 12 if size >= 64 else 6
    for number in range(flips):
        if number < flips // 5:
            position = lambda rng: rng.randrange(min(used, 60))  # noqa: E731
        elif number < flips // 5 * 2:
            position = lambda rng: used - 1 - rng.randrange(min(used, 40))  # noqa: E731
        else:
            position = lambda rng: rng.randrange(told)  # noqa: E731
        evidence = tail if flips // 5 <= number < flips // 5 * 2 else None
        yield case(f"a flipped bit at {number}", flip(path, position), evidence)
    again = data[batches[0] : batches[1]] if len(batches) > 1 else data[: min(used, 1000)]
    for what, more in (("garbage", random.Random(1).randbytes(300)), ("its own begin", again), ("zeros", bytes(PAGE))):
        yield case(f"{what} appended", append(path, more))
    if size > used:
        yield case("garbage behind what is used", overwrite(path, used, random.Random(2).randbytes(300)))
    yield case("removed", remove(path), target.evidence_of_removal)
    for where, other, keys in target.siblings:
        if (template.path / other).exists():
            identity = "directory" if path.endswith("incarnation") and where == "another topic" else None
            yield case(f"exchanged with {where} at {other}", exchange(path, other), identity, keys, [other])
            yield case(f"copied over {where} at {other}", copy_over(path, other), identity, keys, [other])
    for stranger in target.strangers:
        if not (template.path / stranger).exists():
            yield case(f"a copy of it at {stranger}", copy_over(path, stranger), None, (), [stranger])


def directory_cases(template):
    for name in ("replicated", "persisted", "purged"):
        key = (name, 0)
        folder = template.folder(key)
        topic = str(Path(folder).parent.parent)

        def case(damage, apply, touched, name=name):
            return Case(template, f"directory {name}-0", damage, apply, touched, {"0"}, "directory")

        yield case("removed", remove(folder), {key})
        yield case("its topic removed", remove(topic), {other for other in template.keys() if other[0] == name})
        for other in (("persisted" if name == "replicated" else "replicated", 0), (name, 1)):
            if other in template.acked:
                place = template.folder(other)
                yield case(f"exchanged with {other}", exchange(folder, place), {key, other})
                yield case(f"copied over {other}", copy_over(folder, place), {key, other})
        fenced = {"empty": b"", "a byte": b"x", "zeros": bytes(8), "garbage": random.Random(3).randbytes(40)}
        for what, data in fenced.items():
            yield Case(template, f"fenced {name}-0", f"made, {what}", make(f"{folder}/fenced", data), {key}, {"fenced"})


def matrix(template):
    cases = []
    for target in [*partition_targets(template), *shared_targets(template)]:
        cases += file_cases(template, target)
    cases += directory_cases(template)
    names = collections.Counter(case.name for case in cases)
    twice = [name for name, count in names.items() if count > 1]
    assert not twice, twice
    return cases


def sample(cases, count, rng):
    """From each kind of damage to each kind of file in turn, so that few cases meet many kinds."""
    strata = collections.defaultdict(list)
    for case in cases:
        if case.evidence is None:
            strata[case.stratum].append(case)
    order = list(strata)
    rng.shuffle(order)
    kinds = collections.defaultdict(list)  # by target first
    for stratum in order:
        kinds[stratum[1]].append(stratum)
    chosen = []
    while len(chosen) < count and any(kinds.values()):
        for target in rng.sample(list(kinds), len(kinds)):
            if kinds[target]:
                chosen.append(rng.choice(strata[kinds[target].pop()]))
    return chosen[:count]


# ---- the judge -----------------------------------------------------------------------------------


class Look:
    """What one partition shows after a start."""

    def __init__(self):
        self.found = {}
        self.refused = {}  # offset -> code, of messages that are not there
        self.codes = set()
        self.sent = None  # (offset, checksum) of the message sent at the end, None when it was refused
        self.stored_told = set()

    def healed(self, acked):
        return len(self.found) == len(acked) and self.sent is not None and not self.stored_told


def look_at(client, template, key, acked, sent_before):
    """Raises Finding where the law for a touched partition is broken."""
    look, place = Look(), template.place(key)
    known = acked | dict(sent_before)
    end = max(known) + 1

    def take(messages, begin, what):
        """A reply that begins at `begin` passes over no message that is known."""
        at = begin
        for offset, checksum, _ in messages:
            if offset < at:
                raise Finding(f"order: {what} has offset {offset} where {at} is the least")
            passed = next((n for n in range(at, min(offset, end)) if n in known), None)
            if passed is not None:
                raise Finding(f"silent loss: {what} passes over message {passed} and shows {offset}")
            if offset not in known:
                raise Finding(f"unknown message: {what} shows {offset}, nothing was confirmed there")
            if known[offset] != checksum:
                raise Finding(f"another message: {what} shows other bytes at {offset}")
            look.found[offset] = checksum
            at = offset + 1
        return at

    at, step = 0, 1
    while at < end + 50:
        try:
            polled = client.poll(*place, at, 1000)
        except ServerError as error:
            look.codes.add(error.code)
            at, step = at + step, step * 2
            continue
        if not polled.messages:
            missing = [offset for offset in known if offset >= at]
            if missing:
                raise Finding(f"silent loss: empty at {at}, {len(missing)} messages from {min(missing)} on are not there")
            break
        at, step = take(polled.messages, at, f"a poll at {at}"), 1
    # Each one that was not seen, by a poll of its own.
    missing = sorted(offset for offset in known if offset not in look.found)
    for first in range(0, len(missing), 100):
        piece = missing[first : first + 100]
        for offset in piece:
            client.post(OP_READ, client.poll_body(*place, offset, 1), POLL_MESSAGES)
        for offset in piece:
            try:
                polled = parse_poll(client.take().payload(), False)
            except ServerError as error:
                look.codes.add(error.code)
                look.refused[offset] = error.code
                continue
            if not polled.messages:
                raise Finding(f"silent loss: empty at {offset}")
            take(polled.messages, offset, f"a poll of {offset} alone")
    if look.codes - READ_REFUSALS:
        raise Finding(f"refusal: polls answer {sorted(look.codes)}")
    for (kind, consumer), offset in template.stored[key].items():
        name = f"{'group' if kind == CONSUMER_GROUP else 'consumer'} {consumer}"
        try:
            stored = client.stored_offset(*place, consumer, consumer_kind=kind)
        except ServerError as error:
            if error.code != CANNOT_STORE:
                raise Finding(f"refusal: the stored offset of {name} answers {error.code}") from None
            look.stored_told.add((kind, consumer))
            continue
        if stored != offset:
            raise Finding(f"stored offset: {name} had stored {offset}, now {stored}")
        if kind == CONSUMER:
            try:
                polled = client.poll(*place, 0, 1, kind=NEXT, consumer=consumer)
                first = polled.messages[0][0] if polled.messages else None
                if first != offset + 1:
                    raise Finding(f"silent loss: next of {name} at {offset} is {first}")
            except ServerError as error:
                if error.code not in READ_REFUSALS:
                    raise Finding(f"refusal: next of {name} answers {error.code}") from None
    batch = build_batch([f"{key} after {time.time_ns()}".encode()], ORIGIN, id_first=len(known) + 1)
    try:
        reply = client.call(OP_SEND_MESSAGES, send_body(*place, batch), attempts=3)
        (base,) = struct.unpack_from("<Q", reply, 16)
    except ServerError as error:
        if error.code not in SEND_REFUSALS:
            raise Finding(f"refusal: a send answers {error.code}") from None
        return look
    if base in known or base < end:
        raise Finding(f"offset given again: a new message got {base}, {end} is the least that was never confirmed")
    back = client.poll(*place, base, 1).messages
    if [message[:2] for message in back] != [(base, batch.checksums[0])]:
        raise Finding(f"not readable: what was sent to {base} reads as {back}")
    look.sent = (base, batch.checksums[0])
    return look


def files_of(root):
    """What a refused start must leave as it is."""
    return {
        str(path.relative_to(root)): (path.stat().st_size, xxh3(path.read_bytes()))
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root).parts[0] not in ("LOCK", "logs", "runtime")
    }


def judge_refusal(case, server, before):
    status = server.process.returncode
    if status != 1:
        raise Finding(f"crash: the start ended with status {status}: {server.log_tail(5)}")
    lines = [line for line in server.log_tail(200).splitlines() if line.startswith("galgo-server: ")]
    if len(lines) != 1:
        raise Finding(f"refusal: {len(lines)} lines say why: {server.log_tail(5)}")
    if not any(name in lines[0] for name in case.files):
        raise Finding(f"refusal: none of {sorted(case.files)} is named: {lines[0]}")
    if not REMEDY.search(lines[0]):
        raise Finding(f"refusal: no remedy: {lines[0]}")
    after = files_of(server.path)
    if after != before:
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        raise Finding(f"refusal: it changed {changed[:5]}: {lines[0]}")
    if case.touched and not case.shared:
        raise Finding(f"refusal: for files of single partitions nobody is served: {lines[0]}")
    return "refused", lines[0]


def judge_partitions(case, template, server, sent, worst):
    verdict = "healed"
    with Client(server.address, timeout=30).login() as client:
        for key in template.keys():
            try:
                look = look_at(client, template, key, template.acked[key], sent[key])
            except Finding as finding:
                whose = "" if key in case.touched else "of an untouched partition "
                raise Finding(f"{finding} ({whose}{key[0]}/{key[1]})") from None
            healed = look.healed(template.acked[key] | dict(sent[key]))
            if not healed:
                verdict = "told"
                text = f"{len(look.refused)} messages refused by {sorted(look.codes)}, send " + (
                    "refused" if look.sent is None else "taken"
                )
                if key not in case.touched:
                    raise Finding(f"not served: an untouched partition {key[0]}/{key[1]}: {text}")
                if case.must_heal:
                    raise Finding(f"not healed: an index can be made anew: {text}")
            lost = worst.setdefault(key, set())
            if worst["looks"] and set(look.refused) - lost:
                raise Finding(f"worse: the second start misses {len(set(look.refused) - lost)} messages more ({key})")
            lost |= set(look.refused)
            if look.sent is not None:
                sent[key].append(look.sent)
    worst["looks"] += 1
    return verdict


def run_case(binary, template, case, work, seed):
    """(verdict, text), or Finding, or ServerFailure."""
    root = work / f"d{os.getpid()}"
    shutil.rmtree(root, ignore_errors=True)
    server = Server(binary, root, shards=SHARDS, environment=ENVIRONMENT)
    server.log_path.unlink(missing_ok=True)
    try:
        copy_tree(template.path, root)
        case.apply(root, random.Random(f"{seed}/{case.name}"))
        before = files_of(root)
        sent, worst, verdicts = {key: [] for key in template.keys()}, {"looks": 0}, []
        for start in ("first", "second"):
            try:
                server.start(30)
            except ServerFailure:
                report = server.sanitizer_report()
                if report or server.alive():
                    raise
                if start == "second":
                    raise Finding(f"the second start is refused: {server.log_tail(3)}") from None
                return judge_refusal(case, server, before)
            try:
                verdicts.append(judge_partitions(case, template, server, sent, worst))
            except TimeoutError:
                raise Finding(f"hang: no answer in 30 s after the {start} start") from None
            except ConnectionError as error:
                server.check_alive()
                raise Finding(f"connection: {error}") from None
            except ValueError as error:
                raise Finding(f"reply: {error}") from None
            except Finding as finding:
                raise Finding(f"{finding}, {start} start") from None
            finally:
                report = server.sanitizer_report()
                if report:
                    raise ServerFailure("sanitizer report:\n" + report)
            server.kill()
        return ("told" if "told" in verdicts else "healed"), ""
    finally:
        server.end()


# ---- the runner ----------------------------------------------------------------------------------

WORLD = {}


def run_in_process(index):
    """In a worker, which has all from before the fork."""
    arguments, case = WORLD["arguments"], WORLD["cases"][index]
    began = time.monotonic()
    try:
        verdict, text = run_case(arguments.server, WORLD["templates"][case.mode], case, WORLD["work"], arguments.seed)
    except Finding as finding:
        verdict, text = "FINDING", str(finding)
    except ServerFailure as failure:
        verdict, text = "CRASH", str(failure)
    except ServerError as error:
        verdict, text = "FINDING", f"refusal: {error}"
    log = WORLD["work"] / f"d{os.getpid()}.log"
    if verdict in ("FINDING", "CRASH") and log.exists():
        kept = WORLD["work"] / "findings" / re.sub(r"[^\w.-]+", "_", case.name)[:150]
        kept.parent.mkdir(exist_ok=True)
        shutil.copyfile(log, f"{kept}.log")
    return index, verdict, text, time.monotonic() - began


def parse_arguments():
    parser = argparse.ArgumentParser(description="one damage to one file of a data directory, then a start")
    parser.error = lambda message: (print(f"surgery_test: {message}", file=sys.stderr), sys.exit(1))
    parser.add_argument("--server", required=True, help="the galgo-server binary")
    parser.add_argument("--sample", type=int, default=24, help="so many cases of all kinds; default: 24")
    parser.add_argument("--all", action="store_true", help="the whole matrix, with what lacks evidence")
    parser.add_argument("--seed", type=int, default=None, help="which bits and which sample; default: a new one, printed")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="servers at a time")
    parser.add_argument("--list", action="store_true", help="names of cases only")
    parser.add_argument("--work", type=Path, default=None, help="folder for data and logs; default: in memory")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="only cases whose name holds all of these")
    arguments = parser.parse_args()
    if not os.access(arguments.server, os.X_OK):
        parser.error(f"no server at {arguments.server}. Run: ./x build")
    if arguments.seed is None:
        arguments.seed = int.from_bytes(os.urandom(4), "little")
    return arguments


def choose(arguments, cases):
    rng = random.Random(arguments.seed)
    if arguments.texts:
        return [case for case in cases if all(text in case.name for text in arguments.texts)]
    return rng.sample(cases, len(cases)) if arguments.all else sample(cases, arguments.sample, rng)


def default_folder():
    """In memory where there is room: a case copies 60 MB, and no law here is about what a sync promised."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > 2 << 30 else None


def main():
    arguments = parse_arguments()
    if arguments.work is not None:
        arguments.work.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="galgo-surgery.", dir=arguments.work or default_folder()))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    counts, status = collections.Counter(), 0
    try:
        templates = build(arguments.server, work)
        cases = choose(arguments, [case for template in templates.values() for case in matrix(template)])
        if arguments.list:
            print("\n".join(case.name + (f"   [{case.evidence}]" if case.evidence else "") for case in cases))
            return 0
        print(f"seed {arguments.seed}, {len(cases)} cases", flush=True)
        WORLD.update(arguments=arguments, templates=templates, cases=cases, work=work)
        context = multiprocessing.get_context("fork")
        with concurrent.futures.ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
            futures = [pool.submit(run_in_process, index) for index in range(len(cases))]
            try:
                for future in concurrent.futures.as_completed(futures):
                    index, verdict, text, seconds = future.result()
                    counts[verdict] += 1
                    if verdict == "CRASH":
                        status = 100
                    elif verdict == "FINDING":
                        status = status or 102
                    lacks = f" [lacks evidence: {cases[index].evidence}]" if cases[index].evidence else ""
                    print(f"{verdict:<7} {cases[index].name} ({seconds:.1f} s){lacks}{': ' + text if text else ''}", flush=True)
            except BaseException:  # told to end: not only after all that waits
                pool.shutdown(cancel_futures=True)
                raise
    except (ServerFailure, ServerError) as failure:
        print(f"CRASH   while the directories are built: {failure}")
        status = 100
    finally:
        for path in work.iterdir():
            if path.is_dir() and path.name != "findings":
                shutil.rmtree(path)
        if status == 0:
            shutil.rmtree(work)
    if status:
        print(
            f"kept: {work}/findings (logs of the servers)\n"
            f"again: python3 tests/crash/surgery_test.py --server {arguments.server} --seed {arguments.seed} NAME"
        )
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("healed", "told", "refused", "FINDING", "CRASH"))
    print(f"surgery test: {words}")
    return status


if __name__ == "__main__":
    sys.exit(main())
