#!/usr/bin/env python3
"""Encryption at rest of the real server, black box: what is on the disk, which starts are refused, what comes back.

    tests/blackbox/encryption_test.py --server BIN [--work DIR] [CASE...]

Exit status: 0 fine, 1 usage, 100 the server crashed, hung or did not start, 102 a wrong answer.
"""

import base64
import os
import stat
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
sys.dont_write_bytecode = True

from cases import Cases, expect, expect_equal, expect_error, wait_for  # noqa: E402
from galgo_client import BY_OFFSET, BY_TIME, FIRST, LAST, NEXT, Client, build_batch  # noqa: E402
from galgo_server import ServerFailure  # noqa: E402

ORIGIN = 1_700_000_000_000_000
KEY = bytes(range(1, 33))
OTHER_KEY = bytes(range(2, 34))
CANNOT_DECRYPT = 72
SECRET = b"attack at dawn, bring the blue umbrella"

CASES = Cases(__file__, "encryption at rest")
case = CASES.case


def encrypted(key=KEY):
    return {
        "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true",
        "IGGY_SYSTEM_ENCRYPTION_KEY": base64.b64encode(key).decode(),
    }


def switch(server, environment):
    """What the next start is told; nothing: encryption is off."""
    for name in encrypted():
        server.environment.pop(name, None)
    server.environment |= environment


def files_with(server, *texts):
    found = []
    for path in [server.log_path, *server.path.rglob("*")]:
        if path.is_file() and any(text in path.read_bytes() for text in texts):
            found.append(str(path))
    return found


def read_all(client, stream, topic, partition=0):
    messages = []
    while True:
        polled = client.poll(stream, topic, partition, len(messages), 1000, True)
        if not polled.messages:
            return [(offset, payload) for offset, _, payload in messages]
        messages += polled.messages


def stopped_after(ctx, count):
    """A server with encryption that was sent SECRET so often, and stopped; with its stream and topic."""
    server = ctx.server(environment=encrypted())
    server.start()
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 1)
        for _ in range(count):
            client.send(stream, topic, 0, build_batch([SECRET], ORIGIN))
    server.stop()
    return server, stream, topic


def refused(server, *texts):
    """Does the start end with one line that says all of `texts`?"""
    try:
        server.start(20)
    except ServerFailure:
        expect(server.process.poll() == 1, f"the refused start ended with status {server.process.poll()}")
    else:
        raise ServerFailure("the server starts, and should not")
    lines = [line for line in server.log_tail().splitlines() if line.startswith("galgo-server: ")]
    expect_equal(len(lines), 1, "lines of the refusal")
    for text in texts:
        expect(text in lines[0], f"no {text!r} in {lines[0]!r}")


@case
def no_file_holds_what_was_sent(ctx):
    """Payloads and headers, small and large, flushed or not; nor the key, in no file and no log line."""
    server = ctx.server(environment=encrypted())
    server.start()
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 2)
        sent = {0: [], 1: []}
        for number in range(200):
            payloads = [SECRET + b" %d" % number, b"x" * 300 + SECRET]
            headers = [b"", SECRET]
            client.send(stream, topic, number % 2, build_batch(payloads, ORIGIN, headers=headers))
            sent[number % 2] += payloads
        large = b"y" * 300_000 + SECRET + b"z" * 3_000_000
        client.send(stream, topic, 0, build_batch([large], ORIGIN))
        sent[0].append(large)
        key = [KEY, base64.b64encode(KEY), KEY.hex().encode(), SECRET]
        expect_equal(files_with(server, *key), [], "files while the server runs")
        for restart in range(2):
            for partition in (0, 1):
                found = read_all(client, stream, topic, partition)
                expect_equal(found, list(enumerate(sent[partition])), f"messages, restart {restart}")
            if restart == 0:
                server.kill()
                server.start()
                client.close()
                client.__init__(server.address)
                client.login()
    server.stop()
    expect_equal(files_with(server, *key), [], "files after the stop")
    mode = stat.S_IMODE((server.path / "ENCRYPTION").stat().st_mode)
    expect_equal(oct(mode), oct(0o600), "mode of ENCRYPTION")


@case
def wrong_key_no_key_right_key(ctx):
    server, stream, topic = stopped_after(ctx, 1)
    mark = str(server.path / "ENCRYPTION")
    switch(server, encrypted(OTHER_KEY))
    refused(server, mark, "encrypted with another key", "set system.encryption.key")
    switch(server, {})
    refused(server, mark, "encryption is off", "set system.encryption.enabled")
    switch(server, encrypted())
    content = Path(mark).read_bytes()
    for damaged in (content[:-1], b"", bytes([content[0] ^ 1]) + content[1:], content[:30] + b"\0" + content[31:]):
        Path(mark).write_bytes(damaged)
        refused(server, mark, "is damaged", "restore it from a backup")
        expect_equal(Path(mark).read_bytes(), damaged, "the damaged file after the refusal")
    Path(mark).write_bytes(content)  # the remedy
    server.start()
    with Client(server.address).login() as client:
        expect_equal(read_all(client, stream, topic), [(0, SECRET)], "messages with the right key")
    server.stop()
    expect_equal(Path(mark).read_bytes(), content, "the file")


@case
def check_config_knows_the_key(ctx):
    server = ctx.server()
    for environment, fault in (
        (encrypted(), None),
        ({"IGGY_SYSTEM_ENCRYPTION_ENABLED": "true"}, "must be base64 of 32 bytes"),
        (encrypted(b"short"), "must be base64 of 32 bytes"),
    ):
        switch(server, environment)
        server.path.parent.mkdir(parents=True, exist_ok=True)
        run = subprocess.run(
            [server.binary, "--check-config"], env=server.environment, cwd=server.path.parent, capture_output=True
        )
        said = (run.stdout + run.stderr).decode()
        expect_equal(run.returncode, 1 if fault else 0, f"status; it said {said!r}")
        expect(fault is None or fault in said, f"no {fault!r} in {said!r}")
        key = environment.get("IGGY_SYSTEM_ENCRYPTION_KEY")
        expect(key is None or key not in said, "the key is printed")


@case
def old_messages_stay_plain(ctx):
    """Encryption is switched on over data; plain and encrypted batches stand in one segment."""
    server = ctx.server()
    server.start()
    sent = []
    client = Client(server.address).login()
    stream = client.create_stream("s")
    topic = client.create_topic(stream, "t", 1)

    def send(first):
        for number in range(first, first + 10):
            payload = b"%d " % number + SECRET * (1 + number % 3 * 1000)
            client.send(stream, topic, 0, build_batch([payload], ORIGIN))
            sent.append(payload)

    send(0)
    client.close()
    server.stop()
    for restart in range(3):
        switch(server, encrypted())
        server.start()
        client = Client(server.address).login()
        expect_equal(read_all(client, stream, topic), list(enumerate(sent)), f"messages after restart {restart}")
        send(10 * (restart + 1))
        expect_equal(read_all(client, stream, topic), list(enumerate(sent)), f"messages, {restart}")
        client.close()
        (server.kill if restart == 1 else server.stop)()
    [log] = server.path.glob("streams/*/topics/*/partitions/*/*.log")
    expect_equal(log.read_bytes().count(b"GEN1"), 30, "encrypted batches in the segment")
    expect(b"9 " + SECRET in log.read_bytes() and b"10 " + SECRET not in log.read_bytes(), "which are plain")


@case
def all_strategies_and_slices(ctx):
    server = ctx.server(environment=encrypted())
    server.start()
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 1, messages_required_to_save=20)
        sent = []
        for number in range(12):
            payloads = [b"%d/%d " % (number, index) * 20 for index in range(1 + number % 4)]
            client.send(stream, topic, 0, build_batch(payloads, ORIGIN))
            sent += payloads
        rows = list(enumerate(sent))
        for restart in range(2):
            times = []
            for offset in range(len(rows)):
                for count in (1, 2, 3, 7, len(rows)):
                    polled = client.poll(stream, topic, 0, offset, count, True, kind=BY_OFFSET)
                    found = [(at, payload) for at, _, payload in polled.messages]
                    expect_equal(found, rows[offset : offset + count], f"{count} messages from {offset} on")
                times.append(polled.times[0] if polled.messages else None)

            def poll(kind, value=0, count=5, **more):
                polled = client.poll(stream, topic, 0, value, count, True, kind=kind, **more)
                return [(at, payload) for at, _, payload in polled.messages]

            expect_equal(poll(FIRST), rows[:5], "first")
            expect_equal(poll(LAST), rows[-5:], "last")
            begin = times.index(times[10])
            expect_equal(poll(BY_TIME, times[10]), rows[begin : begin + 5], "by time")
            at = 5 * restart
            expect_equal(poll(NEXT, consumer=9, auto_commit=1), rows[at : at + 5], "next")
            wait_for(lambda: client.stored_offset(stream, topic, 0, 9), at + 4, "stored offset")
            if restart == 0:
                server.stop()
                server.start()
                client.close()
                client.__init__(server.address)
                client.login()
    server.stop()


@case
def a_batch_of_64_megabytes(ctx):
    server = ctx.server(environment=encrypted())
    server.start()
    payload = os.urandom(1_000_000) * 63 + b"end"
    with Client(server.address).login() as client:
        stream = client.create_stream("s")
        topic = client.create_topic(stream, "t", 1)
        expect_equal(client.send(stream, topic, 0, build_batch([payload], ORIGIN)), 0, "offset")
        expect_equal(client.send(stream, topic, 0, build_batch([b"next"], ORIGIN)), 1, "offset")
    server.kill()
    server.start()
    with Client(server.address).login() as client:
        [(offset, _, found)] = client.poll(stream, topic, 0, 0, 1, True).messages
        expect(offset == 0 and found == payload, "the large message is another one")
        expect_equal(read_all(client, stream, topic)[1:], [(1, b"next")], "messages behind it")
    server.stop()


@case
def a_restore_without_the_file(ctx):
    """ENCRYPTION is gone: FORMAT says that it has to be there, whatever key is given, or none."""
    server, stream, topic = stopped_after(ctx, 1)
    mark = server.path / "ENCRYPTION"
    content = mark.read_bytes()
    mark.unlink()
    for environment in (encrypted(OTHER_KEY), {}, encrypted()):
        switch(server, environment)
        refused(server, str(mark), "is gone", "FORMAT", "restore it from a backup")
        expect(not mark.exists(), "ENCRYPTION was written")
    # Whoever is sure of the key takes the line out of FORMAT.
    lines = (server.path / "FORMAT").read_text().splitlines(True)
    (server.path / "FORMAT").write_text("".join(line for line in lines if not line.startswith("encryption:")))
    server.start()
    with Client(server.address).login() as client:
        expect_equal(read_all(client, stream, topic), [(0, SECRET)], "messages")
    server.stop()
    expect_equal(mark.read_bytes(), content, "ENCRYPTION, written again")
    expect("encryption:" in (server.path / "FORMAT").read_text(), "no word of it in FORMAT")


@case
def another_key_by_force(ctx):
    """File and line are removed, and another key is given: the old messages are refused, new ones are taken."""
    server, stream, topic = stopped_after(ctx, 3)
    (server.path / "ENCRYPTION").unlink()
    (server.path / "FORMAT").write_text((server.path / "FORMAT").read_text().splitlines(True)[0])
    switch(server, encrypted(OTHER_KEY))
    server.start()
    with Client(server.address).login() as client:
        for offset in range(3):
            expect_error(CANNOT_DECRYPT, "a poll", client.poll, stream, topic, 0, offset, 1)
        expect_equal(client.send(stream, topic, 0, build_batch([b"new"], ORIGIN)), 3, "offset")
        polled = client.poll(stream, topic, 0, 3, 10, True)
        expect_equal([payload for _, _, payload in polled.messages], [b"new"], "messages")
        expect_equal(client.offsets(stream, topic, 0, 1), None, "a stored offset of the consumer")
    server.stop()
    expect("encrypted with another key" in server.log_tail(400), "no line about the key")


if __name__ == "__main__":
    sys.exit(CASES.main())
