"""A short walk with the published Python client: stream, topic, send, poll. Run by `./x tour`."""

import asyncio
import datetime
import os
import sys
import time

from apache_iggy import (
    AutoLogin,
    Consumer,
    IggyClient,
    Partitioning,
    PollingStrategy,
    SendMessage,
    TcpConfig,
    TcpReconnectionConfig,
)


async def tour(address: str) -> None:
    client = IggyClient(
        TcpConfig(
            server_address=address,
            auto_login=AutoLogin.username_password("iggy", "iggy"),
            reconnection=TcpReconnectionConfig(max_retries=1, interval=datetime.timedelta(seconds=1)),
        )
    )
    await client.connect()
    await client.ping()
    print(f"connected to {address} as iggy")

    stream, topic = f"tour-{time.time_ns() // 1_000_000}", "greetings"
    await client.create_stream(stream)
    print(f"created stream {stream}")
    await client.create_topic(stream, topic, partitions_count=2)
    details = await client.get_topic(stream, topic)
    print(f"created topic {topic} with {details.partitions_count} partitions")

    for partition, words in enumerate((["hello", "from", "a", "tour"], ["hola", "galgo"])):
        response = await client.send_messages(
            stream, topic, Partitioning.partition_id(partition), [SendMessage(word) for word in words]
        )
        base = response.confirmations[0].base_offset
        print(f"sent {len(words)} messages to partition {partition}, offsets {base}..{base + len(words) - 1}")

    for partition in range(2):
        messages = await client.poll_messages(
            stream,
            topic,
            consumer=Consumer.Single("tour"),
            polling_strategy=PollingStrategy.Next(),
            count=10,
            auto_commit=True,
            partition_id=partition,
        )
        for message in messages:
            print(f"  partition {partition} offset {message.offset()}: {message.payload().decode()}")

    await client.delete_stream(stream)
    print(f"deleted stream {stream}")


def main() -> int:
    try:
        asyncio.run(asyncio.wait_for(tour(sys.argv[1]), 30))
    except Exception as error:  # a walk for people: one line, no traceback
        print(f"tour: stopped: {error or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # threads of the client (0.9.0) may abort an interpreter that winds up
