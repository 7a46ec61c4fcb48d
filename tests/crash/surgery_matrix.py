"""What surgery_test.py cuts: two data directories, and the matrix of damages to their files.

A template is a directory and all that was acknowledged in it. A case is one damage to a copy of it, with
the partitions that it touches. Files that a later format adds (`state/ledger-*`, `retained`) are targets
as soon as they are there.
"""

import collections
import os
import random
import re
import shutil
import struct
import subprocess
import time
from pathlib import Path

from galgo_client import (
    CONSUMER,
    CONSUMER_GROUP,
    OP_CREATE_GROUP,
    OP_CREATE_STREAM,
    OP_JOIN_GROUP,
    OP_PURGE_TOPIC,
    Client,
    build_batch,
    identifier,
    shard_of_partition,
    str8,
)
from galgo_server import Server, ServerFailure

SHARDS = 2
ORIGIN = 1_700_000_000_000_000
SEGMENT_SIZE = 1 << 20
PAGE = 4096
# name: (durability, partitions, bytes of a partition)
TOPICS = {
    "replicated": ("replicated", 2, 2_600_000),
    "persisted": ("persisted", 2, 2_600_000),
    "purged": ("persisted", 1, 1_400_000),
    "small": ("persisted", 1, 2000),
}
ENVIRONMENT = {"IGGY_METADATA_JOURNAL_SLOTS": "256"}  # two snapshots of the metadata after 256 changes
FILLER_STREAMS = 280


# ---- the directories -----------------------------------------------------------------------------


class Template:
    """What was built: where, and all that was acknowledged."""

    def __init__(self, mode, path):
        self.mode = mode
        self.path = path
        self.stream = None
        self.token = None  # logs in
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
        template.token = client.create_token("surgery")
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
    killed.token, killed.stream, killed.topics = stopped.token, stopped.stream, stopped.topics
    killed.acked = {key: dict(known) for key, known in stopped.acked.items()}
    killed.stored = {key: dict(known) for key, known in stopped.stored.items()}
    builder = Builder(binary, killed)

    def send_more(client):  # what only the journals have
        for number, key in enumerate(killed.keys()):
            for _ in range(12):
                builder.send(client, key, [builder.rng.randint(50, 900) for _ in range(builder.rng.randint(1, 3))])
            builder.store(client, key, (CONSUMER, 1, 2 if key[0] == "small" else 40 + number))
        time.sleep(2.5)  # a ledger is written each second

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


def journal_end(data):
    """Where the records of a journal end."""
    at = 64
    while data[at : at + 4] == b"GRJ1":
        at += 128 + struct.unpack_from("<I", data, at + 88)[0]
    return at


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
    def __init__(self, template, target, damage, apply, touched, paths, restorable=True):
        self.name = f"{template.mode}/{target}/{damage}"
        self.stratum = (template.mode, re.sub(r" \S*\d+$", "", target), damage.split(" at ")[0])
        self.mode = template.mode
        self.apply = apply
        self.touched = frozenset(touched)
        self.paths = paths  # of all that changed: a refusal names one, an operator may restore them
        self.must_heal = " index " in target and "a copy" not in damage  # it is derived from the log beside it
        self.shared = target.startswith("journal")  # records of all partitions of a shard
        # The file is all that it takes: nothing else was lost meanwhile, and nothing took its place.
        self.restorable = bool(self.touched) and not self.shared and restorable


class Target:
    """One file, whose it is, and others of its kind to exchange it with."""

    def __init__(self, name, path, touched, siblings=(), strangers=()):
        self.name = name
        self.path = path
        self.touched = set(touched)
        self.siblings = list(siblings)  # (what, path, keys that are touched as well)
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
                strangers=[f"{folder}/offsets/consumers/9", f"{folder}/offsets/consumers/x"],
            )


def shared_targets(template):
    def files(pattern):
        return sorted(str(path.relative_to(template.path)) for path in template.path.glob(pattern))

    def keys_of(shard):
        return {key for key in template.keys() if template.shard(key) == shard}

    journals = files("state/journal-*.wal")
    for path in journals:
        shard = int(path.split("-")[1])
        others = [
            ("another journal", other, keys_of(int(other.split("-")[1]))) for other in journals if other != path
        ][:2]
        stranger = re.sub(r"-(\d+)\.wal", lambda found: f"-{int(found[1]) + 5:016}.wal", path)
        number = int(re.search(r"-(\d+)\.wal", path)[1])
        if journal_end((template.path / path).read_bytes()) == 64:
            continue  # only its header
        yield Target(f"journal {shard}-{number}", path, keys_of(shard), others, [stranger])
    for pattern, what in (
        ("state/ledger-*", "ledger"),
        ("state/journals-*.list", "list"),
        ("metadata/journal.wal*", "wal"),
        ("metadata/snapshot.*", "snapshot"),
    ):
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
    size = len(data)
    used = journal_end(data) if target.name.startswith("journal") else used_bytes(data)
    log = path.endswith(".log")
    batches = batches_of(data) if log else []

    def case(damage, apply, touched=(), more=(), restorable=True):
        return Case(template, target.name, damage, apply, target.touched | set(touched), [path, *more], restorable)

    def copy(damage, to, touched=(), restorable=True):
        """The file itself stays what it is."""
        touched = target.touched | set(touched)
        return Case(template, target.name, damage, copy_over(path, to), touched, [to], restorable)

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
    seen = set()
    for what, at in places.items():
        if 0 <= at < size and at not in seen:
            seen.add(at)
            yield case(f"truncated {what}", truncate(path, at))
    last = (used - 1) // PAGE
    pages = {"first": 0, "last": last, "middle": used // 2 // PAGE, "second": 1, "last but one": last - 1}
    for what, page in pages.items():
        piece = data[page * PAGE : (page + 1) * PAGE] if page >= 0 else b""
        if any(piece) and page not in seen:
            seen.add(page)
            yield case(f"zeros in its {what} page", overwrite(path, page * PAGE, bytes(len(piece))))
    flips = 20 if size >= PAGE else 12 if size >= 64 else 6
    for number in range(flips):
        if number < flips // 5:
            position = lambda rng: rng.randrange(min(used, 60))  # noqa: E731
        elif number < flips // 5 * 2:
            position = lambda rng: used - 1 - rng.randrange(min(used, 40))  # noqa: E731
        else:
            position = lambda rng: rng.randrange(used)  # noqa: E731
        yield case(f"a flipped bit at {number}", flip(path, position))
    again = data[batches[0] : batches[1]] if len(batches) > 1 else data[: min(used, 1000)]
    for what, more in (("garbage", random.Random(1).randbytes(300)), ("its own begin", again), ("zeros", bytes(PAGE))):
        yield case(f"{what} appended", append(path, more))
    if size > used:
        yield case("garbage behind what is used", overwrite(path, used, random.Random(2).randbytes(300)))
    yield case("removed", remove(path))
    for where, other, keys in target.siblings:
        if (template.path / other).exists():
            # Another life's: the directory is moved aside.
            stays = not (path.endswith("incarnation") and where == "another topic")
            yield case(f"exchanged with {where} at {other}", exchange(path, other), keys, [other], stays)
            yield copy(f"copied over {where} at {other}", other, keys, stays)
    for stranger in target.strangers:
        if not (template.path / stranger).exists():
            yield copy(f"a copy of it at {stranger}", stranger)


def directory_cases(template):
    for name in ("replicated", "persisted", "purged"):
        key = (name, 0)
        folder = template.folder(key)
        topic = str(Path(folder).parent.parent)

        def case(damage, apply, touched, *paths, name=name):
            # What the journals had is in the new directory alone.
            return Case(template, f"directory {name}-0", damage, apply, touched, paths, restorable=False)

        yield case("removed", remove(folder), {key}, folder)
        yield case("its topic removed", remove(topic), {other for other in template.keys() if other[0] == name}, topic)
        for other in (("persisted" if name == "replicated" else "replicated", 0), (name, 1)):
            if other in template.acked:
                place = template.folder(other)
                yield case(f"exchanged with {other}", exchange(folder, place), {key, other}, folder, place)
                yield case(f"copied over {other}", copy_over(folder, place), {key, other}, folder, place)
        fenced = {"empty": b"", "a byte": b"x", "zeros": bytes(8), "garbage": random.Random(3).randbytes(40)}
        for what, data in fenced.items():
            path = f"{folder}/fenced"
            yield Case(template, f"fenced {name}-0", f"made, {what}", make(path, data), {key}, [path])


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
