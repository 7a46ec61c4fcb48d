"""Runs `async def` tests, each in a loop of its own and bounded in time, against $GALGO_ADDRESS."""

import asyncio
import datetime
import inspect
import itertools
import os
import sys

import pytest
from apache_iggy import AutoLogin, IggyClient, TcpConfig, TcpReconnectionConfig

TEST_SECONDS_MAX = 30
_names = itertools.count()


def pytest_sessionfinish(session, exitstatus):
    session.config.exit_status = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    """The last of all: threads of the client (0.9.0) may abort an interpreter that winds up."""
    sys.stdout.flush()
    sys.stderr.flush()
    if hasattr(config, "exit_status"):
        os._exit(config.exit_status)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def bounded():
        await asyncio.wait_for(pyfuncitem.obj(**arguments), TEST_SECONDS_MAX)

    asyncio.run(bounded())
    return True


def make_client(username="iggy", password="iggy", login=True):
    """A client that is not connected yet; it gives up soon instead of redialling for ever."""
    auto_login = AutoLogin.username_password(username, password) if login else AutoLogin.disabled()
    return IggyClient(
        TcpConfig(
            server_address=os.environ["GALGO_ADDRESS"],
            auto_login=auto_login,
            reconnection=TcpReconnectionConfig(max_retries=1, interval=datetime.timedelta(seconds=1)),
        )
    )


@pytest.fixture
def connect():
    async def connect_client(**options):
        client = make_client(**options)
        await client.connect()
        return client

    return connect_client


@pytest.fixture
def name():
    """A name that no other test uses."""
    return f"py-{os.getpid()}-{next(_names)}"
