"""Sending and polling: every polling strategy, offsets, groups, the high-level producer and consumer."""

import asyncio
import datetime

import pytest
from apache_iggy import (
    AutoCommit,
    BackgroundProducerConfig,
    Consumer,
    Partitioning,
    PollingStrategy,
    SendMessage,
)

TOPIC = "events"


async def make_topic(client, name, partitions=1):
    await client.create_stream(name)
    await client.create_topic(name, TOPIC, partitions_count=partitions)


def numbered(count, first=0):
    return [SendMessage(f"message {i}") for i in range(first, first + count)]


async def poll(client, name, strategy, count=100, consumer="reader", commit=False, partition=0):
    return await client.poll_messages(
        name,
        TOPIC,
        consumer=Consumer.Single(consumer),
        polling_strategy=strategy,
        count=count,
        auto_commit=commit,
        partition_id=partition,
    )


def offsets(messages):
    return [m.offset() for m in messages]


async def test_every_polling_strategy(connect, name):
    client = await connect()
    await make_topic(client, name)
    assert await poll(client, name, PollingStrategy.First()) == []
    assert await poll(client, name, PollingStrategy.Next()) == []

    response = await client.send_messages(name, TOPIC, Partitioning.partition_id(0), numbered(10))
    assert [(c.partition_id, c.base_offset) for c in response.confirmations] == [(0, 0)]
    await asyncio.sleep(0.005)  # so that the second batch has a later broker time
    response = await client.send_messages(name, TOPIC, Partitioning.partition_id(0), numbered(5, 10))
    assert response.confirmations[0].base_offset == 10

    every = await poll(client, name, PollingStrategy.Offset(0))
    assert offsets(every) == list(range(15))
    assert [m.payload() for m in every] == [f"message {i}".encode() for i in range(15)]
    assert all(m.partition_id() == 0 and m.length() == len(m.payload()) for m in every)
    assert len({m.id() for m in every}) == 15

    assert offsets(await poll(client, name, PollingStrategy.Offset(7), count=3)) == [7, 8, 9]
    assert offsets(await poll(client, name, PollingStrategy.Offset(9), count=2)) == [9, 10]
    assert offsets(await poll(client, name, PollingStrategy.Offset(14))) == [14]
    assert await poll(client, name, PollingStrategy.Offset(15)) == []
    assert offsets(await poll(client, name, PollingStrategy.First(), count=2)) == [0, 1]
    assert offsets(await poll(client, name, PollingStrategy.Last(), count=2)) == [13, 14]
    assert offsets(await poll(client, name, PollingStrategy.Last(), count=100)) == list(range(15))
    assert offsets(await poll(client, name, PollingStrategy.Timestamp(1))) == list(range(15))
    border = every[10].timestamp()
    assert border > every[0].timestamp()
    assert offsets(await poll(client, name, PollingStrategy.Timestamp(border), count=3)) == [10, 11, 12]
    assert await poll(client, name, PollingStrategy.Timestamp(every[14].timestamp() + 60_000_000)) == []
    await client.delete_stream(name)


async def test_next_moves_with_auto_commit_only(connect, name):
    client = await connect()
    await make_topic(client, name)
    await client.send_messages(name, TOPIC, Partitioning.partition_id(0), numbered(6))
    next_ = PollingStrategy.Next()
    assert offsets(await poll(client, name, next_, count=2)) == [0, 1]
    assert offsets(await poll(client, name, next_, count=2, commit=True)) == [0, 1]
    assert offsets(await poll(client, name, next_, count=2, commit=True)) == [2, 3]
    assert offsets(await poll(client, name, next_, count=9, consumer="other")) == list(range(6))
    assert offsets(await poll(client, name, next_, count=9, commit=True)) == [4, 5]
    assert await poll(client, name, next_, commit=True) == []
    await client.send_messages(name, TOPIC, Partitioning.partition_id(0), numbered(1, 6))
    assert offsets(await poll(client, name, next_, commit=True)) == [6]
    await client.delete_stream(name)


async def test_payloads_headers_and_ids_come_back(connect, name):
    client = await connect()
    await make_topic(client, name)
    headers = {"kind": "order", "count": 7, "paid": True}
    payloads = [b"x", bytes(range(256)) * 4, b"y" * 100_000]
    sent = [SendMessage(p, user_headers=headers, id=100 + i) for i, p in enumerate(payloads)]
    await client.send_messages(name, TOPIC, Partitioning.partition_id(0), sent)
    got = await poll(client, name, PollingStrategy.First())
    assert [m.payload() for m in got] == payloads
    assert [m.id() for m in got] == [100, 101, 102]
    assert all(m.user_headers().to_scalar_dict() == headers for m in got)
    await client.delete_stream(name)


async def test_partitioning(connect, name):
    client = await connect()
    await make_topic(client, name, partitions=3)
    used = set()
    for i in range(6):
        response = await client.send_messages(name, TOPIC, Partitioning.balanced(), numbered(1, i))
        used.add(response.confirmations[0].partition_id)
    assert used == {0, 1, 2}
    by_key = set()
    for i in range(4):
        response = await client.send_messages(name, TOPIC, Partitioning.messages_key("key"), numbered(1, i))
        by_key.add(response.confirmations[0].partition_id)
    assert len(by_key) == 1
    topic = await client.get_topic(name, TOPIC)
    assert topic.messages_count == 10 and sum(p.messages_count for p in topic.partitions) == 10
    with pytest.raises(Exception):
        await client.send_messages(name, TOPIC, Partitioning.partition_id(7), numbered(1))
    await client.delete_stream(name)


async def test_purge_restarts_at_zero(connect, name):
    client = await connect()
    await make_topic(client, name)
    await client.send_messages(name, TOPIC, Partitioning.partition_id(0), numbered(5))
    assert len(await poll(client, name, PollingStrategy.Next(), commit=True)) == 5
    await client.purge_topic(name, TOPIC)
    assert await poll(client, name, PollingStrategy.First()) == []
    assert (await client.get_topic(name, TOPIC)).messages_count == 0
    response = await client.send_messages(name, TOPIC, Partitioning.partition_id(0), numbered(2))
    assert response.confirmations[0].base_offset == 0
    assert offsets(await poll(client, name, PollingStrategy.Next(), commit=True)) == [0, 1]
    await client.purge_stream(name)
    assert await poll(client, name, PollingStrategy.First()) == []
    await client.delete_stream(name)


async def test_producer_direct_and_background(connect, name):
    client = await connect()
    producer = await client.producer(name, TOPIC, partitioning=Partitioning.partition_id(0))
    await producer.send(numbered(3))
    await producer.send_one(SendMessage("message 3"))
    await producer.shutdown()
    mode = BackgroundProducerConfig(linger_time=datetime.timedelta(milliseconds=5))
    async with await client.producer(
        name, TOPIC, partitioning=Partitioning.partition_id(0), mode=mode
    ) as producer:
        for i in range(4, 204):
            await producer.send_one(SendMessage(f"message {i}"))
    got = await poll(client, name, PollingStrategy.First(), count=1000)
    assert [m.payload().decode() for m in got] == [f"message {i}" for i in range(204)]
    await client.delete_stream(name)


async def take(consumer, count):
    taken = []
    async for message in consumer.iter_messages():
        taken.append(message)
        if len(taken) == count:
            return taken


async def test_consumer_group_reads_every_partition(connect, name):
    client = await connect()
    await make_topic(client, name, partitions=3)
    for partition in range(3):
        await client.send_messages(name, TOPIC, Partitioning.partition_id(partition), numbered(5))
    consumer = await client.consumer_group(
        "workers",
        name,
        TOPIC,
        # Not Next: without commits that one serves the same batch for ever.
        polling_strategy=PollingStrategy.Offset(0),
        batch_length=2,
        auto_commit=AutoCommit.Disabled(),
        poll_interval=datetime.timedelta(milliseconds=5),
    )
    taken = await asyncio.wait_for(take(consumer, 15), 20)
    assert sorted((m.partition_id(), m.offset()) for m in taken) == [(p, o) for p in range(3) for o in range(5)]
    for partition in range(3):
        mine = [m.offset() for m in taken if m.partition_id() == partition]
        assert mine == sorted(mine), "a partition is read in order"

    group = await client.get_consumer_group(name, TOPIC, "workers")
    assert (group.members_count, group.partitions_count) == (1, 3)
    assert sorted(group.members[0].partitions) == [0, 1, 2]

    await consumer.store_offset(3, 1)
    assert consumer.get_last_stored_offset(1) == 3
    await consumer.delete_offset(1)
    await client.delete_stream(name)


async def test_consumer_group_membership(connect, name):
    client = await connect()
    await make_topic(client, name, partitions=2)
    await client.create_consumer_group(name, TOPIC, "g")
    with pytest.raises(Exception, match="already exists"):
        await client.create_consumer_group(name, TOPIC, "g")
    assert [g.name for g in await client.get_consumer_groups(name, TOPIC)] == ["g"]
    await client.join_consumer_group(name, TOPIC, "g")
    other = await connect()
    await other.join_consumer_group(name, TOPIC, "g")
    group = await client.get_consumer_group(name, TOPIC, "g")
    assert group.members_count == 2
    assert sorted(p for m in group.members for p in m.partitions) == [0, 1]
    await other.leave_consumer_group(name, TOPIC, "g")
    group = await client.get_consumer_group(name, TOPIC, "g")
    assert [sorted(m.partitions) for m in group.members] == [[0, 1]]
    await client.leave_consumer_group(name, TOPIC, "g")
    with pytest.raises(Exception):
        await client.leave_consumer_group(name, TOPIC, "g")
    await client.delete_consumer_group(name, TOPIC, "g")
    assert await client.get_consumer_group(name, TOPIC, "g") is None
    await client.delete_stream(name)
