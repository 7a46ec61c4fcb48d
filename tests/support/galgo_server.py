"""The real server binary as a child process: start, address, kill, stop. Loopback only."""

import http.client
import os
import re
import signal
import subprocess
import time
from pathlib import Path

SANITIZER = re.compile(r"(==\d+==ERROR|runtime error:|SUMMARY: \w+Sanitizer|WARNING: ThreadSanitizer)")


class ServerFailure(Exception):
    """The server crashed by itself, did not start, or did not stop as asked."""


class Server:
    """One data directory; `start` may be called again after `kill` or `stop`. The log is appended to."""

    def __init__(self, binary, path, shards=2, environment=None, limits=None):
        self.binary = str(Path(binary).resolve())
        self.path = Path(path)
        self.log_path = self.path.with_name(self.path.name + ".log")
        self.limits = limits  # called in the child before it becomes the server
        self.process = None
        self.address = None
        self.log_start = 0
        self.began = 0.0
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith("IGGY_") and key != "RUST_LOG"
        }
        self.environment |= {
            "IGGY_SYSTEM_PATH": str(self.path),
            "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": str(shards),
            "IGGY_TCP_ADDRESS": "127.0.0.1:0",
            "IGGY_HTTP_ADDRESS": "127.0.0.1:0",
            "IGGY_QUIC_ENABLED": "false",
            "IGGY_WEBSOCKET_ENABLED": "false",
        }
        self.environment |= environment or {}

    def start(self, timeout=60.0):
        """Returns the seconds it took until the server said where it listens."""
        self.spawn()
        return self.wait_ready(timeout)

    def spawn(self):
        self._config().unlink(missing_ok=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self.address = None
        self.began = time.monotonic()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "--with-default-root-credentials"],
                env=self.environment,
                cwd=self.path.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=self.limits,
            )

    def wait_ready(self, timeout=60.0):
        while True:
            self.address = self._bound_address("tcp")
            if self.address:
                return time.monotonic() - self.began
            if self.process.poll() is not None:
                raise ServerFailure(f"the server ended at start with status {self.process.returncode}")
            if time.monotonic() - self.began > timeout:
                raise ServerFailure(f"the server does not listen after {timeout:.0f} s")
            time.sleep(0.02)

    def _config(self):
        return self.path / "runtime" / "current_config.toml"

    def _bound_address(self, section):
        try:
            text = self._config().read_text()
        except OSError:
            return None
        found = re.search(rf'^\[{section}\]\n(?:(?!\[).*\n)*?address *= *"([^"]+)"', text, re.MULTILINE)
        return found.group(1) if found and not found.group(1).endswith(":0") else None

    def wait_announced(self, timeout=60.0):
        """Until the server says that it is ready, for a disk without room for the file that says where."""
        while True:
            found = re.search(r"is ready: tcp (\S+), http (\S+),", self.log_tail())
            if found:
                self.address = found.group(1)
                return
            self.check_alive()
            if time.monotonic() - self.began > timeout:
                raise ServerFailure(f"the server is not ready after {timeout:.0f} s")
            time.sleep(0.02)

    def http(self, path, method="GET", **headers):
        """Status, headers and text of one request to the HTTP listener."""
        connection = http.client.HTTPConnection(self._bound_address("http"), timeout=30)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode()
        finally:
            connection.close()

    def metrics(self):
        """{'name{label="x"}': value} of everything that /metrics shows."""
        status, _, text = self.http("/metrics")
        if status != 200:
            raise ServerFailure(f"/metrics answers {status}")
        rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in rows}

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def check_alive(self):
        if not self.alive():
            raise ServerFailure(f"the server ended by itself with status {self.process.returncode}")

    def kill(self):
        """SIGKILL, now. A server that was gone already is a failure."""
        self.check_alive()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.process.returncode != -signal.SIGKILL:
            raise ServerFailure(f"the server ended by itself with status {self.process.returncode}")

    def stop(self, timeout=30.0):
        """SIGTERM; anything but status 0 in time is a failure."""
        self.check_alive()
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise ServerFailure(f"the server does not stop after {timeout:.0f} s") from None
        if status != 0:
            raise ServerFailure(f"the server stopped with status {status}")

    def end(self):
        """For clean-up: no server is left, whatever state it is in."""
        if self.alive():
            self.process.kill()
            self.process.wait()

    def log_tail(self, lines=40):
        try:
            text = self.log_path.read_text(errors="replace")[self.log_start :]
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def sanitizer_report(self):
        """The first lines that a sanitizer wrote since the last start, or None."""
        try:
            with open(self.log_path, errors="replace") as log:
                log.seek(self.log_start)
                text = log.read()
        except OSError:
            return None
        found = SANITIZER.search(text)
        return text[found.start() : found.start() + 3000] if found else None
