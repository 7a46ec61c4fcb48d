"""Connection, streams, topics, partitions and users."""

import pytest
from apache_iggy import GlobalPermissions, Permissions, UserStatus
from apache_iggy import Durability, IggyExpiry, MaxTopicSize


async def test_ping_needs_no_login(connect):
    client = await connect(login=False)
    await client.ping()


async def test_login_by_hand(connect):
    client = await connect(login=False)
    await client.login_user("iggy", "iggy")
    await client.get_streams()
    await client.logout_user()


async def test_wrong_password_is_refused(connect):
    client = await connect(login=False)
    with pytest.raises(Exception, match="(?i)credentials"):
        await client.login_user("iggy", "not the password")


async def test_stream_lifecycle(connect, name):
    client = await connect()
    assert await client.get_stream(name) is None
    await client.create_stream(name)
    with pytest.raises(Exception, match="already exists"):
        await client.create_stream(name)
    stream = await client.get_stream(name)
    assert (stream.name, stream.topics_count, stream.messages_count, stream.size) == (name, 0, 0, 0)
    assert stream.created_at > 1_600_000_000_000_000  # microseconds
    by_id = await client.get_stream(stream.id)
    assert by_id.name == name
    assert name in [s.name for s in await client.get_streams()]

    await client.update_stream(name, name + "-renamed")
    assert await client.get_stream(name) is None
    assert (await client.get_stream(name + "-renamed")).id == stream.id
    await client.delete_stream(stream.id)
    assert await client.get_stream(name + "-renamed") is None
    with pytest.raises(Exception):
        await client.delete_stream(name)


async def test_topic_lifecycle(connect, name):
    client = await connect()
    await client.create_stream(name)
    await client.create_topic(
        name,
        "events",
        partitions_count=3,
        message_expiry=IggyExpiry.NeverExpire(),
        max_topic_size=MaxTopicSize.Unlimited(),
        durability=Durability.PERSISTED,
    )
    with pytest.raises(Exception, match="already exists"):
        await client.create_topic(name, "events", partitions_count=1)
    topic = await client.get_topic(name, "events")
    assert (topic.name, topic.partitions_count, topic.messages_count) == ("events", 3, 0)
    assert [p.id for p in topic.partitions] == [0, 1, 2]
    assert all(p.messages_count == 0 and p.current_offset == 0 for p in topic.partitions)
    assert (await client.get_stream(name)).topics_count == 1
    await client.create_topic(name, "second", partitions_count=1)
    assert sorted(t.name for t in await client.get_topics(name)) == ["events", "second"]

    await client.update_topic(name, "second", "renamed")
    assert (await client.get_topic(name, "renamed")).partitions_count == 1
    await client.delete_topic(name, "renamed")
    assert await client.get_topic(name, "renamed") is None
    assert [t.name for t in await client.get_topics(name)] == ["events"]
    await client.delete_stream(name)


async def test_partitions(connect, name):
    client = await connect()
    await client.create_stream(name)
    await client.create_topic(name, "t", partitions_count=1)
    await client.create_partitions(name, "t", 3)
    assert [p.id for p in (await client.get_topic(name, "t")).partitions] == [0, 1, 2, 3]
    await client.delete_partitions(name, "t", 2)
    assert [p.id for p in (await client.get_topic(name, "t")).partitions] == [0, 1]
    await client.delete_stream(name)


async def test_what_is_not_served_says_so(connect, name):
    client = await connect()
    with pytest.raises(Exception, match="(?i)unavailable"):
        await client.send_binary_request(22, b"")  # the list of clients
    await client.ping()


async def test_users(connect, name):
    root = await connect()
    created = await root.create_user(name, "secret1")
    assert (created.username, created.status, created.permissions) == (name, UserStatus.Active, None)
    assert (await root.get_user(created.id)).username == name
    assert await root.get_user("nobody") is None
    assert [u.username for u in await root.get_users()] == ["iggy", name]
    with pytest.raises(Exception, match="(?i)already"):
        await root.create_user(name, "secret1")

    user = await connect(username=name, password="secret1")
    assert (await user.get_user(name)).id == created.id
    with pytest.raises(Exception, match="(?i)unauthorized"):
        await user.create_stream(name)
    rights = Permissions(global_permissions=GlobalPermissions(manage_streams=True))
    await root.update_permissions(name, rights)
    shown = await user.get_user(name)
    assert shown.permissions.global_permissions.manage_streams
    assert not shown.permissions.global_permissions.manage_users
    await user.create_stream(name)
    await user.delete_stream(name)
    await root.update_permissions(name, None)
    assert (await user.get_user(name)).permissions is None

    with pytest.raises(Exception, match="(?i)credentials"):
        await user.change_password(name, "wrong", "secret2")
    await user.change_password(name, "secret1", "secret2")
    with pytest.raises(Exception):
        await connect(username=name, password="secret1")
    again = await connect(username=name, password="secret2")
    await again.ping()
    await root.update_user(name, username=name + "-2", status=UserStatus.Inactive)
    with pytest.raises(Exception):
        await connect(username=name + "-2", password="secret2")
    await root.delete_user(created.id)
    assert [u.username for u in await root.get_users()] == ["iggy"]
    with pytest.raises(Exception):
        await root.delete_user("iggy")


async def test_stats(connect, name):
    client = await connect()
    await client.create_stream(name)
    stats = await client.get_stats()
    assert stats.streams_count >= 1
    assert stats.process_id > 0
    await client.delete_stream(name)
