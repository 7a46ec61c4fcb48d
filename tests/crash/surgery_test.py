#!/usr/bin/env python3
"""Surgery on data directories: one damage to one file, then a start that has to tell or to mend it.

Two directories are built once, one of a server that was stopped and one of a server that was killed with
messages in its journals: several topics of both durabilities, sealed segments of 1 MiB, a purged topic,
stored offsets of consumers and groups, two snapshots of the metadata. The one that was killed had two
seconds of rest before, in which ledgers were written. Then for each case: copy, one damage,
start, judge, kill -9, start, judge. Three outcomes are right:
  - healed: every acknowledged message is there, exact, stored offsets too, appends are taken;
  - told: only partitions whose files were touched miss something; a poll at each message that is not there
    has a typed error, none is passed over in silence; appends are refused by type, or get an offset that
    was never confirmed; all other partitions work as if nothing had happened;
  - refused: the server ends with status 1 and one line that names the file and a remedy, and the directory
    is what it was.
Everything else is a finding, among it: silent loss, an offset that is given again, other bytes, a crash, a
hang. After the second start nothing may be worse than after the first. When a touched partition tells and
takes no appends, the files are put back, `fenced` is removed, and a third start must have everything.

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
    OP_READ,
    OP_SEND_MESSAGES,
    POLL_MESSAGES,
    Client,
    ServerError,
    build_batch,
    parse_poll,
    send_body,
    xxh3,
)
from galgo_server import Server, ServerFailure  # noqa: E402
from surgery_matrix import ENVIRONMENT, ORIGIN, SHARDS, build, copy_tree, matrix, sample  # noqa: E402

CANNOT_STORE, CANNOT_APPEND, CANNOT_READ, WRONG_CHECKSUM, WRONG_BATCH_CHECKSUM = 3020, 4010, 4011, 4027, 4039
READ_REFUSALS = {CANNOT_READ, WRONG_CHECKSUM, WRONG_BATCH_CHECKSUM}
SEND_REFUSALS = {CANNOT_APPEND}
# What a line that refuses a start may advise.
REMEDY = re.compile(r"restor|remov|delet|move|repair|purge|give up|put .* back|free|set |use |start ", re.IGNORECASE)


class Finding(Exception):
    """The law is broken; the text begins with the kind of finding."""


# ---- the judge -----------------------------------------------------------------------------------


class Look:
    """What one partition shows after a start. Raises Finding where the law for a touched partition is broken."""

    def __init__(self, client, template, key, known):
        self.client, self.key, self.known = client, key, known
        self.place = template.place(key)
        self.stored = template.stored[key]
        self.end = max(known) + 1
        self.found = set()
        self.refused = set()  # offsets of messages that are not there
        self.codes = set()
        self.sent = None  # (offset, checksum) of a message sent at the end, None when it was refused
        self.stored_told = set()
        self.read_all()
        self.read_each(sorted(known.keys() - self.found))
        if self.codes - READ_REFUSALS:
            raise Finding(f"refusal: polls answer {sorted(self.codes)}")
        for (kind, consumer), offset in self.stored.items():
            self.check_stored(kind, consumer, offset)
        self.append()

    def healed(self):
        return len(self.found) >= len(self.known) and self.sent is not None and not self.stored_told

    def take(self, messages, begin, what):
        """A reply that begins at `begin` passes over no message that is known. Where it ends."""
        at = begin
        for offset, checksum, _ in messages:
            if offset < at:
                raise Finding(f"order: {what} has offset {offset} where {at} is the least")
            passed = next((n for n in range(at, min(offset, self.end)) if n in self.known), None)
            if passed is not None:
                raise Finding(f"silent loss: {what} passes over message {passed} and shows {offset}")
            if offset not in self.known:
                raise Finding(f"unknown message: {what} shows {offset}, nothing was confirmed there")
            if self.known[offset] != checksum:
                raise Finding(f"another message: {what} shows other bytes at {offset}")
            self.found.add(offset)
            at = offset + 1
        return at

    def read_all(self):
        """From the begin to the end, over what is refused."""
        at, step = 0, 1
        while at < self.end + 50:
            try:
                messages = self.client.poll(*self.place, at, 1000).messages
            except ServerError as error:
                self.codes.add(error.code)
                at, step = at + step, step * 2
                continue
            if not messages:
                missing = [offset for offset in self.known if offset >= at]
                if missing:
                    raise Finding(f"silent loss: empty at {at}, {len(missing)} from {min(missing)} on are gone")
                return
            at, step = self.take(messages, at, f"a poll at {at}"), 1

    def read_each(self, offsets):
        """Each by a poll of its own, a hundred on their way at a time."""
        for first in range(0, len(offsets), 100):
            piece = offsets[first : first + 100]
            for offset in piece:
                self.client.post(OP_READ, self.client.poll_body(*self.place, offset, 1), POLL_MESSAGES)
            for offset in piece:
                try:
                    polled = parse_poll(self.client.take().payload(), False)
                except ServerError as error:
                    self.codes.add(error.code)
                    self.refused.add(offset)
                    continue
                if not polled.messages:
                    raise Finding(f"silent loss: empty at {offset}")
                self.take(polled.messages, offset, f"a poll of {offset} alone")

    def check_stored(self, kind, consumer, offset):
        name = f"{'group' if kind == CONSUMER_GROUP else 'consumer'} {consumer}"
        try:
            stored = self.client.stored_offset(*self.place, consumer, consumer_kind=kind)
        except ServerError as error:
            if error.code != CANNOT_STORE:
                raise Finding(f"refusal: the stored offset of {name} answers {error.code}") from None
            self.stored_told.add((kind, consumer))
            return
        if stored != offset:
            raise Finding(f"stored offset: {name} had stored {offset}, now {stored}")
        if kind != CONSUMER:
            return  # a group is polled by its members
        try:
            messages = self.client.poll(*self.place, 0, 1, kind=NEXT, consumer=consumer).messages
        except ServerError as error:
            if error.code not in READ_REFUSALS:
                raise Finding(f"refusal: next of {name} answers {error.code}") from None
            return
        first = messages[0][0] if messages else None
        if first != offset + 1:
            raise Finding(f"silent loss: next of {name} at {offset} is {first}")

    def append(self):
        """One message: refused by type, or behind all that was ever confirmed and read back."""
        batch = build_batch([f"{self.key} after {time.time_ns()}".encode()], ORIGIN, id_first=len(self.known) + 1)
        try:
            reply = self.client.call(OP_SEND_MESSAGES, send_body(*self.place, batch), attempts=3)
        except ServerError as error:
            if error.code not in SEND_REFUSALS:
                raise Finding(f"refusal: a send answers {error.code}") from None
            return
        (base,) = struct.unpack_from("<Q", reply, 16)
        if base < self.end:
            raise Finding(f"offset given again: a new message got {base}, the first free one is {self.end}")
        back = self.client.poll(*self.place, base, 1).messages
        if [message[:2] for message in back] != [(base, batch.checksums[0])]:
            raise Finding(f"not readable: what was sent to {base} reads as {back}")
        self.sent = (base, batch.checksums[0])

    def __str__(self):
        taken = "refused" if self.sent is None else "taken"
        return f"{len(self.refused)} messages refused by {sorted(self.codes)}, send {taken}"


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
    if not any(Path(path).name in lines[0] for path in case.paths):
        raise Finding(f"refusal: none of {case.paths} is named: {lines[0]}")
    if not REMEDY.search(lines[0]):
        raise Finding(f"refusal: no remedy: {lines[0]}")
    after = files_of(server.path)
    if after != before:
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        raise Finding(f"refusal: it changed {changed[:5]}: {lines[0]}")
    if case.touched and not case.shared:
        raise Finding(f"refusal: for files of single partitions nobody is served: {lines[0]}")
    return "refused", lines[0]


def judge_partitions(case, template, server, known, lost):
    """Adds to `known` what was sent; `lost` is what the start before refused, None at the first one."""
    verdict, refused = "healed", {}
    with Client(server.address, timeout=30).login_by_token(template.token) as client:
        for key in template.keys():
            name = f"{key[0]}/{key[1]}"
            try:
                look = Look(client, template, key, known[key])
            except Finding as finding:
                whose = "" if key in case.touched else "of an untouched partition "
                raise Finding(f"{finding} ({whose}{name})") from None
            if not look.healed():
                verdict = "told"
                if key not in case.touched:
                    raise Finding(f"not served: an untouched partition {name}: {look}")
                if case.must_heal:
                    raise Finding(f"not healed: an index can be made anew: {look}")
            refused[key] = look.refused
            if lost is not None and look.refused - lost[key]:
                raise Finding(f"worse: {len(look.refused - lost[key])} messages more are refused ({name})")
            if look.sent is not None:
                known[key][look.sent[0]] = look.sent[1]
    return verdict, refused


def took_appends(case, template, known):
    return any(len(known[key]) > len(template.acked[key]) for key in case.touched)


def restore(case, template, root):
    """What an operator does who has a copy of the damaged files."""
    for path in case.paths:
        if (template.path / path).exists():
            shutil.copyfile(template.path / path, root / path)
        else:
            (root / path).unlink(missing_ok=True)
    for key in case.touched:
        (root / template.folder(key) / "fenced").unlink(missing_ok=True)


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
        known, lost, verdicts = {key: dict(acked) for key, acked in template.acked.items()}, None, []
        for start in ("first", "second", "restored"):
            if start == "restored":
                if "told" not in verdicts or not case.restorable or took_appends(case, template, known):
                    break
                restore(case, template, root)
            try:
                server.start()
            except ServerFailure:
                if server.sanitizer_report() or server.alive():
                    raise
                if start != "first":
                    raise Finding(f"the {start} start is refused: {server.log_tail(3)}") from None
                return judge_refusal(case, server, before)
            try:
                verdict, lost = judge_partitions(case, template, server, known, lost)
                verdicts.append(verdict)
                if start == "restored" and verdict != "healed":
                    raise Finding(f"not healed: the files are back, {verdict}")
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
    parser.add_argument("--sample", type=int, default=32, help="so many cases of all kinds; default: 32")
    parser.add_argument("--all", action="store_true", help="the whole matrix")
    parser.add_argument("--seed", type=int, default=None, help="which bits, which sample; default: a new one, printed")
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
            print("\n".join(case.name for case in cases))
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
                    why = f": {text}" if text else ""
                    print(f"{verdict:<7} {cases[index].name} ({seconds:.1f} s){why}", flush=True)
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
