//! Black-box test of a server with the published Rust client: `galgo-interop HOST:PORT`.
//! Each case runs in its own stream, bounded in time; exit status 1 when one fails.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use futures_util::StreamExt;
use iggy::prelude::*;

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

const CASE_SECONDS_MAX: u64 = 30;
const TOPIC: &str = "events";

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition { return Err(format!($($message)+).into()); }
    };
}
macro_rules! ensure_eq {
    ($left:expr, $right:expr, $what:expr) => {{
        let (left, right) = (&$left, &$right);
        ensure!(left == right, "{}: got {:?}, expected {:?}", $what, left, right);
    }};
}

/// The stream of one case, with a client that is logged in.
struct Case {
    client: IggyClient,
    address: String,
    name: String,
    stream: Identifier,
    topic: Identifier,
}

async fn connect(address: &str) -> Result<IggyClient, IggyError> {
    let credentials = Credentials::UsernamePassword("iggy".into(), "iggy".to_string().into());
    let client = IggyClient::builder()
        .with_tcp()
        .with_server_address(address.to_string())
        .with_auto_sign_in(AutoLogin::Enabled(credentials))
        .with_reconnection_max_retries(Some(1))
        .build()?;
    client.connect().await?;
    Ok(client)
}

impl Case {
    async fn new(address: String, name: &str) -> Result<Self, IggyError> {
        Ok(Self {
            client: connect(&address).await?,
            address,
            name: name.to_string(),
            stream: Identifier::named(name)?,
            topic: Identifier::named(TOPIC)?,
        })
    }

    async fn make_topic(&self, partitions: u32) -> Result<(), IggyError> {
        self.client.create_stream(&self.name).await?;
        let options = TopicCreateOptions { partitions_count: Some(partitions), ..Default::default() };
        self.client.create_topic(&self.stream, TOPIC, &options).await?;
        Ok(())
    }

    /// Sends "message FIRST".. to a partition; the offset of the first one.
    async fn send(&self, partition: u32, first: u64, count: u64) -> Result<u64, IggyError> {
        let mut messages = numbered(first, count)?;
        let to = Partitioning::partition_id(partition);
        let reply = self.client.send_messages(&self.stream, &self.topic, &to, &mut messages).await?;
        Ok(reply.confirmations[0].base_offset)
    }

    async fn poll(&self, strategy: PollingStrategy, count: u32, commit: bool) -> Result<PolledMessages, IggyError> {
        let consumer = Consumer::new(Identifier::named("reader")?);
        self.client
            .poll_messages(&self.stream, &self.topic, Some(0), &consumer, &strategy, count, commit)
            .await
    }

    async fn polled_offsets(&self, strategy: PollingStrategy, count: u32, commit: bool) -> Result<Vec<u64>, IggyError> {
        Ok(offsets(&self.poll(strategy, count, commit).await?))
    }
}

fn numbered(first: u64, count: u64) -> Result<Vec<IggyMessage>, IggyError> {
    (first..first + count).map(|i| IggyMessage::from_str(&format!("message {i}"))).collect()
}

fn offsets(polled: &PolledMessages) -> Vec<u64> {
    polled.messages.iter().map(|m| m.header.offset).collect()
}

fn code(result: Result<impl Sized, IggyError>) -> u32 {
    result.err().map_or(0, |error| error.as_code())
}

async fn connection_and_login(case: Case) -> Outcome {
    case.client.ping().await?;
    let me = case.client.get_me().await?;
    ensure!(me.user_id.is_some(), "get_me names no user");
    ensure!(case.client.get_stats().await?.process_id > 0, "stats without process id");
    case.client.logout_user().await?;
    case.client.login_user("iggy", "iggy").await?;

    let stranger = IggyClient::builder().with_tcp().with_server_address(case.address.clone()).build()?;
    stranger.connect().await?;
    stranger.ping().await?;
    ensure_eq!(code(stranger.login_user("iggy", "wrong password").await), 42, "wrong password");
    Ok(())
}

async fn streams_topics_partitions(case: Case) -> Outcome {
    let (client, stream, topic) = (&case.client, &case.stream, &case.topic);
    ensure!(client.get_stream(stream).await?.is_none(), "the stream is there before it was made");
    ensure_eq!(code(client.delete_stream(stream).await), 1009, "delete an unknown stream");
    case.make_topic(3).await?;
    ensure_eq!(code(client.create_stream(&case.name).await), 1012, "create a stream twice");
    let again = TopicCreateOptions { partitions_count: Some(1), ..Default::default() };
    ensure_eq!(code(client.create_topic(stream, TOPIC, &again).await), 2013, "create a topic twice");

    let details = client.get_topic(stream, topic).await?.ok_or("no topic")?;
    ensure_eq!(details.partitions_count, 3, "partitions");
    client.create_partitions(stream, topic, 4).await?;
    let details = client.get_topic(stream, topic).await?.ok_or("no topic")?;
    let ids: Vec<u32> = details.partitions.iter().map(|p| p.id).collect();
    ensure_eq!(ids, (0..7).collect::<Vec<u32>>(), "partition ids after create");
    client.delete_partitions(stream, topic, 5).await?;
    let details = client.get_topic(stream, topic).await?.ok_or("no topic")?;
    let ids: Vec<u32> = details.partitions.iter().map(|p| p.id).collect();
    ensure_eq!(ids, vec![0, 1], "partition ids after delete");

    client.update_topic(stream, topic, "renamed", &TopicUpdateOptions::default()).await?;
    ensure!(client.get_topic(stream, topic).await?.is_none(), "the old name still resolves");
    let topics = client.get_topics(stream).await?;
    ensure_eq!(topics.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), vec!["renamed"], "topics");
    client.delete_topic(stream, &Identifier::numeric(details.id)?).await?;
    ensure!(client.get_topics(stream).await?.is_empty(), "the topic is there after its delete");
    client.delete_stream(stream).await?;
    ensure!(client.get_stream(stream).await?.is_none(), "the stream is there after its delete");
    Ok(())
}

async fn polling_strategies(case: Case) -> Outcome {
    case.make_topic(1).await?;
    ensure_eq!(case.poll(PollingStrategy::first(), 10, false).await?.messages.len(), 0, "empty partition");
    ensure_eq!(case.send(0, 0, 10).await?, 0, "first base offset");
    tokio::time::sleep(Duration::from_millis(5)).await;
    ensure_eq!(case.send(0, 10, 10).await?, 10, "second base offset");

    let every = case.poll(PollingStrategy::offset(0), 100, false).await?;
    ensure_eq!(offsets(&every), (0..20).collect::<Vec<u64>>(), "offset 0");
    ensure_eq!(every.current_offset, 19, "current offset");
    for (i, message) in every.messages.iter().enumerate() {
        ensure_eq!(message.payload, format!("message {i}").into_bytes(), "payload");
    }
    for (first, count) in [(0u64, 1u32), (9, 1), (9, 2), (10, 1), (11, 5), (19, 1), (13, 100)] {
        let expected: Vec<u64> = (first..(first + u64::from(count)).min(20)).collect();
        let got = case.polled_offsets(PollingStrategy::offset(first), count, false).await?;
        ensure_eq!(got, expected, format!("offset {first} count {count}"));
    }
    let beyond = case.poll(PollingStrategy::offset(20), 10, false).await?;
    ensure!(beyond.messages.is_empty() && beyond.current_offset == 19, "beyond the end: {beyond:?}");
    ensure_eq!(case.polled_offsets(PollingStrategy::first(), 3, false).await?, vec![0, 1, 2], "first");
    ensure_eq!(case.polled_offsets(PollingStrategy::last(), 3, false).await?, vec![17, 18, 19], "last");
    let border = every.messages[10].header.timestamp;
    ensure!(border > every.messages[9].header.timestamp, "broker time does not advance");
    let at = PollingStrategy::timestamp(IggyTimestamp::from(border));
    ensure_eq!(case.polled_offsets(at, 2, false).await?, vec![10, 11], "timestamp of the second batch");
    let from_start = PollingStrategy::timestamp(IggyTimestamp::from(1));
    ensure_eq!(case.polled_offsets(from_start, 2, false).await?, vec![0, 1], "timestamp 1");
    ensure_eq!(case.polled_offsets(PollingStrategy::next(), 4, false).await?, vec![0, 1, 2, 3], "next");
    ensure_eq!(case.polled_offsets(PollingStrategy::next(), 4, true).await?, vec![0, 1, 2, 3], "next, commit");
    ensure_eq!(case.polled_offsets(PollingStrategy::next(), 4, true).await?, vec![4, 5, 6, 7], "next, moved");
    Ok(())
}

async fn consumer_offsets(case: Case) -> Outcome {
    case.make_topic(2).await?;
    let (client, stream, topic) = (&case.client, &case.stream, &case.topic);
    let consumer = Consumer::new(Identifier::named("keeper")?);
    let store = |offset| client.store_consumer_offset(&consumer, stream, topic, Some(0), offset);
    let get = || client.get_consumer_offset(&consumer, stream, topic, Some(0));
    ensure!(get().await?.is_none(), "an offset before the first store");
    ensure_eq!(code(store(0).await), 4100, "store on an empty partition");
    case.send(0, 0, 5).await?;
    store(4).await?;
    let info = get().await?.ok_or("no stored offset")?;
    ensure_eq!((info.partition_id, info.current_offset, info.stored_offset), (0, 4, 4), "stored offset");
    ensure_eq!(code(store(5).await), 4100, "store beyond the end");
    store(2).await?;
    ensure_eq!(get().await?.ok_or("no stored offset")?.stored_offset, 2, "a lower offset");
    let polled = client
        .poll_messages(stream, topic, Some(0), &consumer, &PollingStrategy::next(), 10, false)
        .await?;
    ensure_eq!(offsets(&polled), vec![3, 4], "next after a store");
    client.delete_consumer_offset(&consumer, stream, topic, Some(0)).await?;
    ensure!(get().await?.is_none(), "an offset after its delete");
    ensure_eq!(code(client.delete_consumer_offset(&consumer, stream, topic, Some(0)).await), 3021, "delete twice");
    ensure_eq!(code(client.get_consumer_offset(&consumer, stream, topic, Some(9)).await), 3007, "partition 9");
    Ok(())
}

async fn purge(case: Case) -> Outcome {
    case.make_topic(1).await?;
    case.send(0, 0, 5).await?;
    ensure_eq!(case.polled_offsets(PollingStrategy::next(), 9, true).await?.len(), 5, "before the purge");
    case.client.purge_topic(&case.stream, &case.topic).await?;
    ensure_eq!(case.polled_offsets(PollingStrategy::first(), 9, false).await?.len(), 0, "after the purge");
    let details = case.client.get_topic(&case.stream, &case.topic).await?.ok_or("no topic")?;
    ensure_eq!(details.messages_count, 0, "messages after the purge");
    ensure_eq!(case.send(0, 0, 3).await?, 0, "offsets restart");
    ensure_eq!(case.polled_offsets(PollingStrategy::next(), 9, true).await?, vec![0, 1, 2], "next restarts");
    case.client.purge_stream(&case.stream).await?;
    ensure_eq!(case.polled_offsets(PollingStrategy::first(), 9, false).await?.len(), 0, "after purge_stream");
    Ok(())
}

async fn headers_and_large_payloads(case: Case) -> Outcome {
    case.make_topic(1).await?;
    let mut headers = BTreeMap::new();
    headers.insert(HeaderKey::try_from("kind")?, HeaderValue::try_from("order")?);
    let mut sent = Vec::new();
    for (i, size) in [1usize, 2048, 16 * 1024, 64 * 1024, 1024 * 1024].into_iter().enumerate() {
        let payload: Vec<u8> = (0..size).map(|at| (at * 31 + i) as u8).collect();
        sent.push(
            IggyMessage::builder()
                .id(i as u128 + 1)
                .payload(payload.into())
                .user_headers(headers.clone())
                .build()?,
        );
    }
    let expected: Vec<_> = sent.iter().map(|m| m.payload.clone()).collect();
    case.client
        .send_messages(&case.stream, &case.topic, &Partitioning::partition_id(0), &mut sent)
        .await?;
    let got = case.poll(PollingStrategy::first(), 10, false).await?.messages;
    ensure_eq!(got.len(), expected.len(), "messages");
    for (i, message) in got.iter().enumerate() {
        ensure!(message.payload == expected[i], "payload {i} differs");
        ensure_eq!(message.header.id, i as u128 + 1, "id");
        ensure_eq!(message.user_headers_map()?, Some(headers.clone()), "headers");
    }
    Ok(())
}

async fn group_membership(case: Case) -> Outcome {
    case.make_topic(4).await?;
    let (client, stream, topic) = (&case.client, &case.stream, &case.topic);
    let group = Identifier::named("workers")?;
    ensure_eq!(code(client.join_consumer_group(stream, topic, &group).await), 5000, "join an unknown group");
    client.create_consumer_group(stream, topic, "workers").await?;
    ensure_eq!(code(client.create_consumer_group(stream, topic, "workers").await), 5004, "create a group twice");
    ensure_eq!(code(client.leave_consumer_group(stream, topic, &group).await), 5006, "leave without joining");
    client.join_consumer_group(stream, topic, &group).await?;
    let other = connect(&case.address).await?;
    other.join_consumer_group(stream, topic, &group).await?;
    let details = client.get_consumer_group(stream, topic, &group).await?.ok_or("no group")?;
    let mut shares: Vec<usize> = details.members.iter().map(|m| m.partitions.len()).collect();
    shares.sort_unstable();
    ensure_eq!(shares, vec![2, 2], "shares of two members");
    let owned: BTreeSet<u32> = details.members.iter().flat_map(|m| m.partitions.clone()).collect();
    ensure_eq!(owned, (0..4).collect::<BTreeSet<u32>>(), "owned partitions");
    other.disconnect().await?;
    for _ in 0..100 {
        let details = client.get_consumer_group(stream, topic, &group).await?.ok_or("no group")?;
        if details.members_count == 1 && details.members[0].partitions.len() == 4 {
            client.delete_consumer_group(stream, topic, &group).await?;
            ensure!(client.get_consumer_group(stream, topic, &group).await?.is_none(), "group after its delete");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err("a member that disconnected keeps its partitions for more than 2 s".into())
}

async fn producer_and_group_consumer(case: Case) -> Outcome {
    const COUNT: u64 = 500;
    let producer = case
        .client
        .producer(&case.name, TOPIC)?
        .create_stream_if_not_exists()
        .create_topic_if_not_exists(3, IggyExpiry::NeverExpire, MaxTopicSize::ServerDefault)
        .partitioning(Partitioning::balanced())
        .direct(DirectConfig::builder().batch_length(10).build())
        .build();
    producer.init().await?;
    producer.send(numbered(0, COUNT)?).await?;
    let details = case.client.get_topic(&case.stream, &case.topic).await?.ok_or("no topic")?;
    ensure_eq!(details.messages_count, COUNT, "messages after the producer");

    let mut seen = BTreeSet::new();
    // Two runs of the same group: the second goes on where the first one stopped.
    for goal in [COUNT / 2, COUNT] {
        let mut consumer = case
            .client
            .consumer_group("readers", &case.name, TOPIC)?
            .create_consumer_group_if_not_exists()
            .auto_join_consumer_group()
            .polling_strategy(PollingStrategy::next())
            .poll_interval(IggyDuration::from_str("1ms")?)
            .batch_length(20)
            .auto_commit(AutoCommit::When(AutoCommitWhen::ConsumingEachMessage))
            .build();
        consumer.init().await?;
        let mut last: HashMap<u32, u64> = HashMap::new();
        while (seen.len() as u64) < goal {
            let received = consumer.next().await.ok_or("the consumer ended")??;
            let offset = received.message.header.offset;
            if let Some(before) = last.insert(received.partition_id, offset) {
                ensure_eq!(offset, before + 1, "order within a partition");
            }
            ensure!(seen.insert(received.message.payload.clone()), "message handed over twice");
        }
        consumer.shutdown().await?;
    }
    ensure_eq!(seen.len() as u64, COUNT, "messages consumed");
    Ok(())
}

async fn background_producer_and_single_consumer(case: Case) -> Outcome {
    case.make_topic(1).await?;
    let producer = case
        .client
        .producer(&case.name, TOPIC)?
        .partitioning(Partitioning::partition_id(0))
        .background(BackgroundConfig::builder().build())
        .build();
    producer.init().await?;
    for message in numbered(0, 300)? {
        producer.send_one(message).await?;
    }
    producer.shutdown().await;
    let mut consumer = case
        .client
        .consumer("single", &case.name, TOPIC, 0)?
        .polling_strategy(PollingStrategy::offset(0))
        .poll_interval(IggyDuration::from_str("1ms")?)
        .batch_length(64)
        .auto_commit(AutoCommit::Disabled)
        .build();
    consumer.init().await?;
    for i in 0..300u64 {
        let received = consumer.next().await.ok_or("the consumer ended")??;
        ensure_eq!(received.message.header.offset, i, "offset");
        ensure_eq!(received.message.payload, format!("message {i}").into_bytes(), "payload");
    }
    consumer.store_offset(299, Some(0)).await?;
    consumer.shutdown().await?;
    Ok(())
}

/// Runs one case in a task of its own, so that a panic inside the client is a failure and not the end.
async fn run<F: Future<Output = Outcome> + Send + 'static>(
    address: &str,
    name: &'static str,
    body: fn(Case) -> F,
) -> bool {
    let address = address.to_string();
    let task = tokio::spawn(async move { body(Case::new(address, &format!("rust-{name}")).await?).await });
    let outcome = match tokio::time::timeout(Duration::from_secs(CASE_SECONDS_MAX), task).await {
        Ok(Ok(outcome)) => outcome.map_err(|error| error.to_string()),
        Ok(Err(panic)) => Err(panic.to_string()),
        Err(_) => Err(format!("no end after {CASE_SECONDS_MAX} s")),
    };
    match &outcome {
        Ok(()) => println!("{name}: ok"),
        Err(error) => println!("{name}: FAILED: {error}"),
    }
    outcome.is_ok()
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let Some(address) = std::env::args().nth(1) else {
        eprintln!("usage: galgo-interop HOST:PORT");
        return ExitCode::from(2);
    };
    let mut results = Vec::new();
    macro_rules! cases {
        ($($case:ident),+ $(,)?) => { $( results.push(run(&address, stringify!($case), $case).await); )+ };
    }
    cases!(
        connection_and_login,
        streams_topics_partitions,
        polling_strategies,
        consumer_offsets,
        purge,
        headers_and_large_payloads,
        group_membership,
        producer_and_group_consumer,
        background_producer_and_single_consumer,
    );
    let failed = results.iter().filter(|ok| !**ok).count();
    println!("rust: {} passed, {failed} failed", results.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
