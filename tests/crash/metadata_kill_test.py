#!/usr/bin/env python3
"""kill -9 of the real server under a load of metadata changes, again and again, on one data directory.

Each round: start, log in as root, judge what is there, let eight clients change streams, topics, partitions,
consumer groups, access tokens and users until enough changes are acknowledged, SIGKILL at a random
moment after that. Each client works below names of its own; metadata_model.py has what they do. Laws:
  - what was acknowledged is there after the restart, and nothing was done twice;
  - a change without an answer took effect wholly or not at all;
  - ids of what is there never change, neither do the times at which users were made;
  - the last acknowledged password of a user logs in and the one before does not; of a change without an answer
    one of the two does. Inactive users do not log in; the judge makes them active for a moment. Judged are
    users whose password was set or in doubt since the last start, and one more;
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
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
sys.dont_write_bytecode = True

from galgo_client import Client, ServerError, identifier  # noqa: E402
from galgo_server import Server, ServerFailure  # noqa: E402
from metadata_model import (  # noqa: E402
    ACTIVE,
    GET_USER,
    INACTIVE,
    OP_UPDATE_USER,
    Broken,
    apply,
    draw_change,
    logs_in,
    read_state,
    same,
    send_change,
    update_user_body,
    users_of,
)

SHARDS = 2
CLIENTS, PASSWORD_CLIENTS = 8, 4  # so many of them set passwords often
SECONDS_ROUND_MAX = 90
SECONDS_ANSWER_MAX = 60
RECOVERY_KILL_EVERY = 7  # one restart in so many is killed as well
OTHER_PASSWORD_EVERY = 3  # one start in so many has other root credentials in its environment
USER_CHANGES = ("create_user", "delete_user", "update_user", "change_password", "update_permissions")
CONTEXT = multiprocessing.get_context("fork")


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


class LateClient(Client):
    """Leaves an answer that is there unread for `pause` seconds, and for ever when the kill comes meanwhile.
    Otherwise a password in doubt would hardly ever have taken effect: hashing takes much longer than logging.
    """

    def __init__(self, address, killed):
        super().__init__(address, SECONDS_ANSWER_MAX)
        self.killed, self.pause = killed, 0.0

    def take(self):
        if self.pause:
            select.select([self.socket], [], [], SECONDS_ANSWER_MAX)
            if self.killed.wait(self.pause):
                raise ConnectionError("the kill")
        return super().take()


def draw_pause(rng, change):
    if change[0] in ("create_user", "change_password"):
        return rng.uniform(0.0, 0.6)
    return rng.uniform(0.0, 0.2) if rng.random() < 0.02 else 0.0


def change_until_killed(address, outbox, killed, index, part, seed, round_number):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rng = random.Random(f"{seed}/{round_number}/{index}")
    prefix, serial = f"c{index}-", round_number * 1_000_000

    def tell(*entry):
        outbox.send(json.dumps(entry).encode())

    try:
        with LateClient(address, killed) as client:
            client.login()
            while True:
                serial += 1
                change = draw_change(rng, part, prefix, serial, index < PASSWORD_CLIENTS)
                client.pause = draw_pause(rng, change)
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
        self.root = None
        self.gone = set()  # users that were deleted or renamed since the last start
        self.user_changes = {}  # of each kind: acknowledged, in doubt, of which took effect
        self.passwords_judged = 0

    def start(self):
        self.starts += 1
        self.server.environment.pop("IGGY_ROOT_USERNAME", None)
        self.server.environment.pop("IGGY_ROOT_PASSWORD", None)
        if self.starts % OTHER_PASSWORD_EVERY == 0:
            self.server.environment |= {"IGGY_ROOT_USERNAME": "iggy", "IGGY_ROOT_PASSWORD": "another-one"}
        took = self.server.start()
        if logs_in(self.server.address, "iggy", "another-one") is not None:
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
                part, change = self.parts[entry[0]], entry[2]
                before = users_of(part)
                apply(part, change, entry[3])
                self.gone |= before.keys() - part.keys()
                self.pending[entry[0]] = None
                self.count_users(change, 0)

    def count_users(self, change, column):
        if change[0] in USER_CHANGES:
            self.user_changes.setdefault(change[0], [0, 0, 0])[column] += 1

    def judge(self, client):
        found = read_state(client)
        root = found.pop("iggy", None)
        self.root = self.root or root
        if root is None or root != self.root:
            raise Broken(f"root is {root} and was {self.root}")
        for name in self.gone:
            if client.read(GET_USER, identifier(name)):
                raise Broken(f"user {name} is not gone")
        self.gone.clear()
        also = self.rng.choice(sorted(users_of(found)) or [None])
        for index in range(CLIENTS):
            mine = {name: found.pop(name) for name in list(found) if name.startswith(f"c{index}-")}
            possible = [self.parts[index]]
            if self.pending[index] is not None:
                self.in_doubt += 1
                self.count_users(self.pending[index], 1)
                copy = json.loads(json.dumps(self.parts[index]))
                possible.append(apply(copy, self.pending[index], None))
            fitting = [model for model in possible if same(model, mine)]
            if not fitting:
                raise Broken(
                    f"client {index}: acknowledged is\n  {json.dumps(self.parts[index], sort_keys=True)}\n"
                    f"without an answer is {self.pending[index]}\nthe server has\n"
                    f"  {json.dumps(mine, sort_keys=True)}"
                )
            fitting = self.judge_passwords(client, fitting, users_of(mine), also)
            if fitting[0] is not self.parts[index]:
                self.taken_effect += 1
                self.count_users(self.pending[index], 2)
            for name, user in users_of(mine).items():
                user["login"] = fitting[0][name]["login"] | {"fresh": False}
            self.parts[index], self.pending[index] = mine, None
        if found:
            raise Broken(f"streams, tokens or users that nobody made: {sorted(found)}")

    def judge_passwords(self, client, fitting, users, also):
        """Those of the models whose passwords are the right ones."""
        for name, user in users.items():
            logins = [model[name]["login"] for model in fitting]
            rivals = {login["password"] for login in logins}
            if len(rivals) == 1 and not logins[0]["fresh"] and name != also:
                continue
            self.passwords_judged += 1
            tried = sorted(rivals | {login["former"] for login in logins if login["former"] is not None})
            working = self.working_passwords(client, name, user, tried)
            fitting = [model for model in fitting if working == [model[name]["login"]["password"]]]
            if not fitting:
                raise Broken(f"user {name} logs in with {working}; the passwords, last and before: {logins}")
        return fitting

    def working_passwords(self, client, name, user, tried):
        def working():
            ids = {password: logs_in(self.server.address, name, password) for password in tried}
            if not {*ids.values()} <= {None, user["user"]}:
                raise Broken(f"user {name}, id {user['user']}, logs in as {ids}")
            return [password for password in tried if ids[password] is not None]

        if user["status"] == ACTIVE:
            return working()
        if working():
            raise Broken(f"user {name} is inactive and logs in")
        client.call(OP_UPDATE_USER, update_user_body(name, None, ACTIVE))
        passwords = working()
        client.call(OP_UPDATE_USER, update_user_body(name, None, INACTIVE))
        return passwords

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
            before, killed = sum(self.counts[:]), CONTEXT.Event()
            self.workers = [
                CONTEXT.Process(
                    target=change_until_killed,
                    args=(self.server.address, self.outbox, killed, index, part, self.arguments.seed, number),
                    daemon=True,
                )
                for index, part in enumerate(self.parts)
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
            killed.set()
            self.server.kill()
        self.collect()
        report = self.server.sanitizer_report()
        if report:
            raise ServerFailure("the server's log holds a sanitizer report:\n" + report)
        files = sorted(p.name for p in (self.work / "data" / "metadata").iterdir())
        snapshots = [int(n.split(".")[1]) for n in files if n.startswith("snapshot.") and n[-1].isdigit()]
        self.snapshots = max([self.snapshots, *snapshots])
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
        if self.snapshots == 0 and sum(self.counts[:]) > 2000:
            raise Broken("no snapshot was ever taken")
        print(
            f"fine: {self.arguments.rounds} rounds, {sum(self.counts[:])} acknowledged changes, "
            f"{self.in_doubt} in doubt of which {self.taken_effect} took effect, "
            f"{self.recovery_kills} kills during recovery, last snapshot at change {self.snapshots}"
        )
        changes = ", ".join(f"{kind} {'/'.join(map(str, row))}" for kind, row in sorted(self.user_changes.items()))
        print(f"users, acknowledged/in doubt/took effect: {changes}; {self.passwords_judged} passwords judged")

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
    except (Broken, ServerError) as fault:
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
