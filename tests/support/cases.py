"""The runner of black-box tests: a case is a function that raises when something is wrong.

Cases run one after the other in one process. Each gets the context, starts servers of its own by it, and
has them ended afterwards, whatever happened. The exit status of `main`: 0 fine, 1 usage, 100 the server
crashed, hung or did not start, 102 a wrong answer.
"""

import argparse
import contextlib
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from galgo_client import ServerError
from galgo_server import Server, ServerFailure


class Wrong(Exception):
    pass


class Skip(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Wrong(text)


def expect_equal(found, wanted, what):
    if found != wanted:
        raise Wrong(f"{what}: {found!r}, not {wanted!r}"[:2000])


def expect_error(code, what, function, *arguments, **more):
    try:
        function(*arguments, **more)
    except ServerError as error:
        expect(error.code == code, f"{what}: error {error.code}, not {code}")
    else:
        raise Wrong(f"{what}: was accepted")


def wait_for(what, wanted, text, seconds=20):
    """Until `what()` is `wanted`."""
    deadline = time.monotonic() + seconds
    while (found := what()) != wanted:
        expect(time.monotonic() < deadline, f"{text}: after {seconds} s {found!r}, not {wanted!r}")
        time.sleep(0.05)


class Context:
    def __init__(self, binary, work, shards):
        self.binary = binary
        self.work = work
        self.shards = shards
        self.servers = []
        self.rng = random.Random(1)

    def server(self, **more):
        """One that is not started yet, with a data directory of its own."""
        server = Server(self.binary, self.work / f"data{len(self.servers)}", shards=self.shards, **more)
        self.servers.append(server)
        return server

    @contextlib.contextmanager
    def running(self, **more):
        """A started one, which must stop as asked at the end."""
        server = self.server(**more)
        server.start()
        yield server
        server.stop()

    def check_reports(self):
        for server in self.servers:
            report = server.sanitizer_report()
            if report:
                raise ServerFailure("sanitizer report:\n" + report)

    def end(self):
        for server in self.servers:
            server.end()


class Cases:
    def __init__(self, script, description, shards=2):
        self.script = Path(script)
        self.description = description
        self.shards = shards
        self.functions = {}

    def case(self, function):
        self.functions[function.__name__] = function
        return function

    def parse(self):
        parser = argparse.ArgumentParser(description=self.description)
        parser.error = lambda message: (print(f"{self.script.stem}: {message}", file=sys.stderr), sys.exit(1))
        parser.add_argument("--server", required=True, help="the galgo-server binary")
        parser.add_argument("--work", type=Path, default=None, help="folder for data and logs; default: temporary")
        parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(self.functions))
        arguments = parser.parse_args()
        if not os.access(arguments.server, os.X_OK):
            parser.error(f"no server at {arguments.server}. Run: ./x build")
        for name in arguments.cases:
            if name not in self.functions:
                parser.error(f"no case {name}")
        return arguments

    def main(self):
        arguments = self.parse()
        if arguments.work is not None:
            arguments.work.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix="galgo-cases.", dir=arguments.work))
        passed, skipped, failed, status = 0, 0, [], 0
        for name in arguments.cases or self.functions:
            began = time.monotonic()
            ctx = Context(arguments.server, work / name, self.shards)
            ctx.work.mkdir()
            try:
                self.functions[name](ctx)
                ctx.check_reports()
                print(f"ok   {name} ({time.monotonic() - began:.1f} s)", flush=True)
                passed += 1
                ctx.end()
                shutil.rmtree(ctx.work)
            except Skip as reason:
                skipped += 1
                print(f"SKIP {name}: {reason}", flush=True)
            except (ServerFailure, Wrong, ServerError, ValueError, OSError) as fault:
                failed.append(name)
                status = 100 if isinstance(fault, ServerFailure) else status or 102
                print(f"FAIL {name}: {type(fault).__name__}: {fault}", flush=True)
                if ctx.servers:
                    print(f"---- last lines of its server\n{ctx.servers[-1].log_tail(20)}\n----")
            finally:
                ctx.end()
        if failed:
            print(f"kept: {work}\nagain: python3 {self.script} --server {arguments.server} {' '.join(failed)}")
        else:
            shutil.rmtree(work)
        print(
            f"{self.script.stem}: {passed} passed, {len(failed)} failed"
            + (f", {skipped} SKIPPED, see above" if skipped else "")
        )
        return status
