#!/usr/bin/env python3
"""kill -9 of the real server under a load of metadata changes, again and again, on one data directory.

Each round: start, log in as root, judge what is there, let eight clients change streams, topics,
partitions, consumer groups and access tokens until enough changes are acknowledged, SIGKILL at a random moment
after that. Each client works below names of its own. Laws:
  - what was acknowledged is there after the restart, and nothing was done twice;
  - a change without an answer took effect wholly or not at all;
  - ids of what is there never change;
  - root's password stays what it was, whatever the environment says at later starts.

Processes: this one (starts, kills, judges), eight clients, and a logger which writes each
acknowledgement to `acknowledgements` before it counts.

Exit status: 0 fine, 1 usage, 100 the server crashed, hung or did not start, 102 a law is broken.
The seed fixes the order of each client's changes; the interleaving is the machine's.
"""

import argparse
import json
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
    GET_STREAMS,
    OP_CREATE_GROUP,
    OP_CREATE_STREAM,
    OP_CREATE_TOPIC,
    OP_DELETE_GROUP,
    OP_DELETE_STREAM,
    OP_DELETE_TOPIC,
    Client,
    ServerError,
    identifier,
    option,
    str8,
)
from galgo_server import Server, ServerFailure  # noqa: E402

OP_UPDATE_STREAM, OP_CREATE_PARTITIONS, OP_DELETE_PARTITIONS = 129, 136, 137
OP_CREATE_TOKEN, OP_DELETE_TOKEN = 146, 147
GET_TOKENS, GET_GROUPS = 41, 601

SHARDS = 2
CLIENTS = 8
STREAMS_MAX, TOPICS_MAX, GROUPS_MAX, PARTITIONS_MAX, TOKENS_MAX = 4, 3, 2, 12, 2
SECONDS_ROUND_MAX = 90
SECONDS_ANSWER_MAX = 60
RECOVERY_KILL_EVERY = 7  # one restart in so many is killed as well
OTHER_PASSWORD_EVERY = 3  # one start in so many has other root credentials in its environment
CONTEXT = multiprocessing.get_context("fork")


class Broken(Exception):
    """A law is broken."""


# ---- the model -----------------------------------------------------------------------------------
# A client's part: {stream name: {"id", "topics": {name: {"id", "partitions", "groups": {name: id}}}}},
# and {token name: {"token": True}}.
# A change: [kind, arguments...]; an id that only the answer tells is None until then.


def apply(part, change, answer):
    """The model behind a change; `answer` is the id that a creation got, or None if not known."""
    kind, *rest = change
    if kind == "create_stream":
        part[rest[0]] = {"id": answer, "topics": {}}
    elif kind == "rename_stream":
        part[rest[1]] = part.pop(rest[0])
    elif kind in ("delete_stream", "delete_token"):
        del part[rest[0]]
    elif kind == "create_token":
        part[rest[0]] = {"token": True}
    elif kind == "create_topic":
        part[rest[0]]["topics"][rest[1]] = {"id": answer, "partitions": rest[2], "groups": {}}
    elif kind == "delete_topic":
        del part[rest[0]]["topics"][rest[1]]
    elif kind == "create_partitions":
        part[rest[0]]["topics"][rest[1]]["partitions"] += rest[2]
    elif kind == "delete_partitions":
        part[rest[0]]["topics"][rest[1]]["partitions"] -= rest[2]
    elif kind == "create_group":
        part[rest[0]]["topics"][rest[1]]["groups"][rest[2]] = answer
    elif kind == "delete_group":
        del part[rest[0]]["topics"][rest[1]]["groups"][rest[2]]
    return part


def draw_change(rng, part, prefix, serial):
    """A change that succeeds on this part."""
    tokens = sorted(name for name in part if "token" in part[name])
    part = {name: stream for name, stream in part.items() if "topics" in stream}
    topics = [(s, t) for s, stream in part.items() for t in stream["topics"]]
    groups = [(s, t, g) for s, t in topics for g in part[s]["topics"][t]["groups"]]
    choices = []
    if len(part) < STREAMS_MAX:
        choices += ["create_stream"] * 2
    if part:
        choices += ["rename_stream", "delete_stream"]
    roomy = [s for s, stream in part.items() if len(stream["topics"]) < TOPICS_MAX]
    if roomy:
        choices += ["create_topic"] * 4
    if topics:
        choices += ["delete_topic"]
    growing = [(s, t) for s, t in topics if part[s]["topics"][t]["partitions"] < PARTITIONS_MAX]
    shrinking = [(s, t) for s, t in topics if part[s]["topics"][t]["partitions"] > 1]
    choices += ["create_partitions"] * 2 if growing else []
    choices += ["delete_partitions"] if shrinking else []
    joining = [(s, t) for s, t in topics if len(part[s]["topics"][t]["groups"]) < GROUPS_MAX]
    choices += ["create_group"] * 3 if joining else []
    choices += ["delete_group"] * 2 if groups else []
    choices += ["create_token"] if len(tokens) < TOKENS_MAX else []
    choices += ["delete_token"] if tokens else []
    kind = rng.choice(choices)
    if kind == "create_token":
        return [kind, f"{prefix}k{serial}"]
    if kind == "delete_token":
        return [kind, rng.choice(tokens)]
    if kind == "create_stream":
        return [kind, f"{prefix}s{serial}"]
    if kind == "rename_stream":
        return [kind, rng.choice(sorted(part)), f"{prefix}r{serial}"]
    if kind == "delete_stream":
        return [kind, rng.choice(sorted(part))]
    if kind == "create_topic":
        return [kind, rng.choice(sorted(roomy)), f"t{serial}", rng.randint(1, 4)]
    if kind == "delete_topic":
        return [kind, *rng.choice(sorted(topics))]
    if kind == "create_partitions":
        return [kind, *rng.choice(sorted(growing)), rng.randint(1, 3)]
    if kind == "delete_partitions":
        return [kind, *rng.choice(sorted(shrinking)), 1]
    if kind == "create_group":
        return [kind, *rng.choice(sorted(joining)), f"g{serial}"]
    return [kind, *rng.choice(sorted(groups))]


def send_change(client, change):
    """Sends it; the id of what was made, or None."""
    kind, *rest = change
    if kind == "create_stream":
        return struct.unpack_from("<I", client.call(OP_CREATE_STREAM, str8(rest[0])))[0]
    where = b"".join(identifier(name) for name in rest[:2])
    if kind == "create_token":
        client.call(OP_CREATE_TOKEN, str8(rest[0]) + struct.pack("<Q", 0))
    elif kind == "delete_token":
        client.call(OP_DELETE_TOKEN, str8(rest[0]))
    elif kind == "rename_stream":
        client.call(OP_UPDATE_STREAM, identifier(rest[0]) + str8(rest[1]))
    elif kind == "delete_stream":
        client.call(OP_DELETE_STREAM, identifier(rest[0]))
    elif kind == "create_topic":
        body = identifier(rest[0]) + struct.pack("<I", rest[2]) + str8(rest[1])
        for key in ("consumer_offset_durability", "durability"):
            body += option(key, "replicated")
        return struct.unpack_from("<I", client.call(OP_CREATE_TOPIC, body))[0]
    elif kind == "delete_topic":
        client.call(OP_DELETE_TOPIC, where)
    elif kind == "create_partitions":
        client.call(OP_CREATE_PARTITIONS, where + struct.pack("<I", rest[2]))
    elif kind == "delete_partitions":
        client.call(OP_DELETE_PARTITIONS, where + struct.pack("<I", rest[2]))
    elif kind == "create_group":
        return struct.unpack_from("<I", client.call(OP_CREATE_GROUP, where + str8(rest[2])))[0]
    else:
        client.call(OP_DELETE_GROUP, where + identifier(rest[2]))
    return None


# ---- what the server has -------------------------------------------------------------------------


def take_name(body, at):
    size = body[at]
    return body[at + 1 : at + 1 + size].decode(), at + 1 + size


def skip_block(body, at):
    return at + 4 + struct.unpack_from("<I", body, at)[0]


def take_stream(body, at):
    (number,) = struct.unpack_from("<I", body, at)
    name, at = take_name(body, at + 32)
    return number, name, skip_block(body, at)


def read_state(client):
    """{name: as in the model} of all streams and tokens; broken when a name stands twice."""
    streams, at, body = {}, 0, client.read(GET_STREAMS)
    while at < len(body):
        number, name, at = take_stream(body, at)
        if name in streams:
            raise Broken(f"stream {name} is there twice")
        streams[name] = {"id": number, "topics": {}}
    for name, stream in streams.items():
        body = client.read(GET_STREAM, identifier(name))
        _, _, at = take_stream(body, 0)
        while at < len(body):
            number, _, partitions = struct.unpack_from("<IQI", body, at)
            topic, at = take_name(body, at + 49)
            at = skip_block(body, skip_block(body, at))
            if topic in stream["topics"]:
                raise Broken(f"topic {name}/{topic} is there twice")
            groups, there = {}, 0
            listed = client.read(GET_GROUPS, identifier(name) + identifier(topic))
            while there < len(listed):
                (group_number,) = struct.unpack_from("<I", listed, there)
                group, there = take_name(listed, there + 12)
                if group in groups:
                    raise Broken(f"group {name}/{topic}/{group} is there twice")
                groups[group] = group_number
            stream["topics"][topic] = {"id": number, "partitions": partitions, "groups": groups}
    at, body = 0, client.read(GET_TOKENS)
    while at < len(body):
        token, at = take_name(body, at)
        at += 8  # its expiry
        if token in streams:
            raise Broken(f"token {token} is there twice")
        streams[token] = {"token": True}
    return streams


def same(model, found):
    """Equal, where an id that nobody was told fits any."""
    if isinstance(model, dict):
        return isinstance(found, dict) and model.keys() == found.keys() and all(
            same(model[key], found[key]) for key in model
        )
    return model is None or model == found


# ---- clients and the logger ----------------------------------------------------------------------
# One JSON record a datagram: [client, "sent", change], [client, "done", change, answer],
# ["error", text], ["flush"].


def log_records(inbox, path, counts, flushed):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(path, "ab", buffering=0) as file:
        while True:
            data = inbox.recv(1 << 16)
            entry = json.loads(data)
            if entry[0] == "flush":
                flushed.send(True)
                continue
            file.write(data + b"\n")
            if entry[1] == "done":
                counts[entry[0]] += 1


def change_until_killed(address, outbox, index, part, seed, round_number):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rng = random.Random(f"{seed}/{round_number}/{index}")
    prefix, serial = f"c{index}-", round_number * 1_000_000

    def tell(*entry):
        outbox.send(json.dumps(entry).encode())

    try:
        with Client(address, SECONDS_ANSWER_MAX) as client:
            client.login()
            while True:
                serial += 1
                change = draw_change(rng, part, prefix, serial)
                tell(index, "sent", change)
                answer = send_change(client, change)
                tell(index, "done", change, answer)
                apply(part, change, answer)
    except TimeoutError:
        tell("error", f"client {index}: no answer in {SECONDS_ANSWER_MAX} s")
    except OSError:
        pass  # the kill
    except (ServerError, ValueError) as error:
        tell("error", f"client {index}: {error} to {change}")


# ---- the rounds ----------------------------------------------------------------------------------


class Run:
    def __init__(self, arguments, work):
        self.arguments = arguments
        self.rng = random.Random(f"{arguments.seed}/main")
        self.work = work
        self.server = Server(arguments.server, work / "data", SHARDS)
        self.log_path = work / "acknowledgements"
        self.log_path.touch()
        self.position = 0
        self.counts = CONTEXT.Array("Q", CLIENTS)
        inbox, self.outbox = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.flushed, flushed = CONTEXT.Pipe(duplex=False)
        self.logger = CONTEXT.Process(
            target=log_records, args=(inbox, self.log_path, self.counts, flushed), daemon=True
        )
        self.logger.start()
        self.parts = [{} for _ in range(CLIENTS)]
        self.pending = [None] * CLIENTS
        self.workers = []
        self.starts = self.recovery_kills = self.taken_effect = self.in_doubt = self.snapshots = 0

    def start(self):
        self.starts += 1
        self.server.environment.pop("IGGY_ROOT_USERNAME", None)
        self.server.environment.pop("IGGY_ROOT_PASSWORD", None)
        if self.starts % OTHER_PASSWORD_EVERY == 0:
            self.server.environment |= {"IGGY_ROOT_USERNAME": "iggy", "IGGY_ROOT_PASSWORD": "another-one"}
        took = self.server.start()
        with Client(self.server.address, timeout=60) as wrong:
            try:
                wrong.login("iggy", "another-one")
            except ServerError:
                pass
            else:
                raise Broken("root logs in with another password")
        client = Client(self.server.address, timeout=60)
        try:
            client.login()
        except ServerError as error:
            raise Broken(f"root's password is not what it was: {error}") from None
        return client, took

    def learn(self):
        with open(self.log_path, "rb") as file:
            file.seek(self.position)
            data = file.read()
        self.position += len(data)
        for line in data.splitlines():
            entry = json.loads(line)
            if entry[0] == "error":
                raise Broken(entry[1])
            if entry[1] == "sent":
                self.pending[entry[0]] = entry[2]
            else:
                apply(self.parts[entry[0]], entry[2], entry[3])
                self.pending[entry[0]] = None

    def judge(self, client):
        found = read_state(client)
        for index in range(CLIENTS):
            mine = {name: found.pop(name) for name in list(found) if name.startswith(f"c{index}-")}
            possible = [self.parts[index]]
            if self.pending[index] is not None:
                self.in_doubt += 1
                copy = json.loads(json.dumps(self.parts[index]))
                possible.append(apply(copy, self.pending[index], None))
            fitting = [model for model in possible if same(model, mine)]
            if not fitting:
                raise Broken(
                    f"client {index}: acknowledged is\n  {json.dumps(self.parts[index], sort_keys=True)}\n"
                    f"without an answer is {self.pending[index]}\nthe server has\n"
                    f"  {json.dumps(mine, sort_keys=True)}"
                )
            self.taken_effect += fitting[0] is not self.parts[index]
            self.parts[index], self.pending[index] = mine, None
        if found:
            raise Broken(f"streams or tokens that nobody made: {sorted(found)}")

    def check_workers(self):
        self.server.check_alive()
        if not all(worker.is_alive() for worker in self.workers):
            self.collect()
            raise Broken("a client lost its connection before the kill")

    def collect(self):
        for worker in self.workers:
            worker.join(0.05 if self.server.alive() else 60)
        self.outbox.send(b'["flush"]')
        if not self.flushed.poll(60):
            raise Broken("the logger does not answer")
        self.flushed.recv()
        self.learn()

    def round(self, number):
        if number % RECOVERY_KILL_EVERY == RECOVERY_KILL_EVERY - 1:
            self.server.spawn()
            time.sleep(self.rng.uniform(0.0, 0.4))
            self.server.kill()
            self.recovery_kills += 1
        client, took = self.start()
        with client:
            self.judge(client)
            before = sum(self.counts[:])
            self.workers = [
                CONTEXT.Process(
                    target=change_until_killed,
                    args=(self.server.address, self.outbox, index, self.parts[index], self.arguments.seed, number),
                    daemon=True,
                )
                for index in range(CLIENTS)
            ]
            for worker in self.workers:
                worker.start()
            deadline = time.monotonic() + SECONDS_ROUND_MAX
            while sum(self.counts[:]) - before < self.arguments.changes:
                self.check_workers()
                if time.monotonic() > deadline:
                    raise ServerFailure(f"{sum(self.counts[:]) - before} changes in {SECONDS_ROUND_MAX} s")
                time.sleep(0.005)
            pause = self.rng.uniform(0.0, 0.1)
            time.sleep(pause)
            self.check_workers()
            self.server.kill()
        self.collect()
        report = self.server.sanitizer_report()
        if report:
            raise ServerFailure("the server's log holds a sanitizer report:\n" + report)
        files = sorted(p.name for p in (self.work / "data" / "metadata").iterdir())
        self.snapshots = max([self.snapshots] + [int(n.split(".")[1]) for n in files if n.startswith("snapshot.") and n[-1].isdigit()])
        print(
            f"round {number}: up in {took:.2f} s, acknowledged {sum(self.counts[:]) - before} changes, "
            f"snapshot at {self.snapshots}, {sum(n.startswith('journal') for n in files)} log files",
            flush=True,
        )

    def run(self):
        for number in range(self.arguments.rounds):
            self.round(number)
        for how in ("the last kill", "an orderly stop"):
            client, _ = self.start()
            with client:
                self.judge(client)
            self.server.stop()
            print(f"after {how}: everything is there", flush=True)
        print(
            f"fine: {self.arguments.rounds} rounds, {sum(self.counts[:])} acknowledged changes, "
            f"{self.in_doubt} in doubt of which {self.taken_effect} took effect, "
            f"{self.recovery_kills} kills during recovery, last snapshot at change {self.snapshots}"
        )

    def end(self):
        self.server.end()
        for worker in [*self.workers, self.logger]:
            if worker.is_alive():
                worker.kill()


def main():
    parser = argparse.ArgumentParser(description="kill -9 under a load of metadata changes")
    parser.add_argument("--server", required=True, help="the binary")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--changes", type=int, default=500, help="acknowledged a round, at least")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)))
    parser.add_argument("--keep", action="store_true", help="keep the data directory of a good run too")
    arguments = parser.parse_args()
    if not os.access(arguments.server, os.X_OK) or arguments.rounds < 1 or arguments.changes < 1:
        parser.print_usage(sys.stderr)
        return 1
    work = Path(tempfile.mkdtemp(prefix="galgo-metadata-kill-"))
    print(f"seed {arguments.seed}, data in {work}", flush=True)
    run = Run(arguments, work)
    status = 0
    try:
        run.run()
    except Broken as fault:
        print(f"BROKEN: {fault}", flush=True)
        status = 102
    except (ServerFailure, OSError) as fault:
        print(f"FAILED: {fault}\n{run.server.log_tail()}", flush=True)
        status = 100
    finally:
        run.end()
    if status:
        print(
            f"again: {sys.argv[0]} --server {arguments.server} --rounds {arguments.rounds} "
            f"--changes {arguments.changes} --seed {arguments.seed}   (data kept in {work})"
        )
    elif not arguments.keep:
        shutil.rmtree(work)
    return status


if __name__ == "__main__":
    sys.exit(main())
