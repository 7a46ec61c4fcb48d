#!/usr/bin/env python3
"""2 GiB of messages through segments of 1 MiB: memory and descriptors do not grow with sealed segments.

    tests/crash/many_segments_test.py --server BIN [--work DIR] [CASE...]

iggy 2686, 2924. Needs 2.1 GiB of disk for the time it runs.
Exit status: 0 fine, 1 usage, 100 the server crashed, hung or did not start, 102 a wrong answer.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
sys.dont_write_bytecode = True

from cases import Cases, expect, expect_equal  # noqa: E402
from galgo_client import BY_OFFSET, LAST, Client, build_batch  # noqa: E402

ORIGIN = 1_700_000_000_000_000
MIB = 1 << 20
IN_FLIGHT = 4

CASES = Cases(__file__, "many sealed segments")


@CASES.case
def memory_and_descriptors_stay(ctx):
    """What is resident, and what is open, after a fifth of it and at the end."""
    each = 1000
    batches = (2 << 30) // (each * 1024)
    # Memory that was given back and is kept to find its late users would count as resident.
    options = os.environ.get("ASAN_OPTIONS", "")
    quarantine = ":".join(option for option in (options, "quarantine_size_mb=1") if option)
    with ctx.running(environment={"ASAN_OPTIONS": quarantine}) as server:
        process = Path(f"/proc/{server.process.pid}")

        def look():
            lines = (line.split() for line in (process / "status").read_text().splitlines())
            resident = next(int(line[1]) for line in lines if line[0] == "VmRSS:") * 1024
            return resident, len(os.listdir(process / "fd"))

        with Client(server.address).login() as client:
            stream = client.create_stream("s")
            topic = client.create_topic(stream, "t", 1, segment_size=MIB)
            batch = build_batch([ctx.rng.randbytes(1024) for _ in range(each)], ORIGIN)
            answered, warm = 0, None
            for number in range(batches):
                client.post_batch(stream, topic, 0, batch)
                if number - answered >= IN_FLIGHT:
                    client.take().payload()
                    answered += 1
                if number == batches // 5:
                    warm = look()
            for _ in range(batches - answered):
                client.take().payload()
            end = look()
            total = batches * each
            for value, kind, wanted in ((0, BY_OFFSET, 0), (total // 2, BY_OFFSET, total // 2), (0, LAST, total - 1)):
                found = client.poll(stream, topic, 0, value, 1, kind=kind).messages
                expect_equal(found[:1] and found[0][:2], (wanted, batch.checksums[wanted % each]), f"message {wanted}")
            (_, segments, current, messages) = client.partitions(stream, topic)[0]
            expect_equal((current, messages), (total - 1, total), "end of the log and messages")
        print(
            f"   {segments} segments; resident {warm[0] // MIB} MiB after a fifth, {end[0] // MIB} at the end; "
            f"descriptors {warm[1]} and {end[1]}"
        )
        expect(segments > 1900, f"{segments} segments")
        expect(end[0] - warm[0] < 20 * MIB, f"resident {warm[0]} bytes after a fifth, {end[0]} at the end")
        expect(end[1] <= warm[1] + 4, f"{warm[1]} descriptors after a fifth, {end[1]} at the end")


if __name__ == "__main__":
    sys.exit(CASES.main())
