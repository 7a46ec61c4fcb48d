// galgo-bench: measures a server of the protocol and the machine under it. Only the command line is
// here; see workload.hpp, limits.hpp and compare.hpp for what the rows mean.
// Exit codes: 0 fine, 1 usage, 2 the measurement failed.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <string>
#include <vector>

#include "bench/compare.hpp"
#include "bench/limits.hpp"
#include "bench/workload.hpp"
#include "model/units_text.hpp"

namespace {

using namespace galgo;
using namespace galgo::bench;

struct CommandLine {
    std::vector<std::string> servers{"127.0.0.1:8090"};
    std::string credentials = "iggy:iggy";
    std::string total_bytes = "1G";
    std::string durability = "replicated";
    bool no_topic_options = false;
    bool drop_after = false;
    bool json = false;
    bool sync = false;
    bool no_limits = false;
    std::uint32_t rounds = 1;
    std::uint64_t requests = 40000;
    std::string folder = "/tmp";
    WorkloadOptions workload;
};

void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
}

int report_failure(const char* what, const Error& error) {
    std::fprintf(stderr, "galgo-bench: %s: %s\n", what, to_string(error).c_str());
    return 2;
}

std::string read_bytes(const std::string& text, std::uint64_t& to) {
    // "1G" and "1GB" are the same; the parser knows the latter.
    const char last = text.empty() ? '0' : text.back();
    const bool bare_letter = last == 'k' || last == 'K' || last == 'M' || last == 'G';
    const Result<std::uint64_t> bytes = model::parse_byte_size(bare_letter ? text + "B" : text);
    if (!bytes || *bytes == 0 || *bytes > 1'000'000'000'000) {
        return "'" + text + "' is no size from 1 to 1 TB";
    }
    to = *bytes;
    return {};
}

/// Fills what the text options stand for. Empty, or what is wrong.
std::string complete(CommandLine& line) {
    WorkloadOptions& workload = line.workload;
    const std::size_t colon = line.credentials.find(':');
    if (colon == std::string::npos) {
        return "--credentials are user:password";
    }
    workload.username = line.credentials.substr(0, colon);
    workload.password = line.credentials.substr(colon + 1);
    workload.durability = line.no_topic_options            ? Durability::kServerDefault
                          : line.durability == "persisted" ? Durability::kPersisted
                                                           : Durability::kReplicated;
    return read_bytes(line.total_bytes, workload.total_bytes);
}

LimitOptions limits_of(const CommandLine& line) {
    const WorkloadOptions& workload = line.workload;
    return {.message_size = workload.message_size,
            .batch = workload.batch,
            .total_bytes = workload.total_bytes,
            .round_trips = workload.round_trips,
            .round_trip_size = workload.round_trip_size,
            .warmup = workload.warmup,
            .time_limit_seconds = workload.time_limit_seconds,
            .sync = line.sync || workload.durability == Durability::kPersisted,
            .folder = line.folder};
}

int show(const char* what, const Result<std::vector<Row>>& rows, Format format) {
    if (!rows) {
        return report_failure(what, rows.error());
    }
    print(header_line(format));
    for (const Row& row : *rows) {
        print(line(row, format));
    }
    return 0;
}

Result<std::vector<Row>> as_rows(Result<Row> row) {
    GALGO_TRY(row);
    return std::vector<Row>{*row};
}

void add_load_options(CLI::App& app, CommandLine& line) {
    WorkloadOptions& workload = line.workload;
    app.add_option("--message-size", workload.message_size, "payload bytes of a message")
        ->check(CLI::Range(1U, 60'000'000U))
        ->capture_default_str();
    app.add_option("--batch", workload.batch, "messages a send or poll")
        ->check(CLI::Range(1U, 1'000'000U))
        ->capture_default_str();
    app.add_option("--total-bytes", line.total_bytes, "payload to produce: 1G, 500MB, 1GiB")
        ->capture_default_str();
    app.add_option("--warmup", workload.warmup, "requests in front of the timed ones")
        ->check(CLI::Range(0U, 100'000U))
        ->capture_default_str();
    app.add_option("--time-limit", workload.time_limit_seconds, "seconds a measurement")
        ->check(CLI::Range(1U, 3600U))
        ->capture_default_str();
    app.add_option("--round-trips", workload.round_trips, "single messages of a round trip run")
        ->check(CLI::Range(1U, 100'000'000U))
        ->capture_default_str();
    app.add_option("--round-trip-size", workload.round_trip_size, "payload bytes of one of them")
        ->check(CLI::Range(1U, 60'000'000U))
        ->capture_default_str();
    app.add_flag("--json", line.json, "one line of JSON a row");
}

void add_server_options(CLI::App& app, CommandLine& line, bool many) {
    WorkloadOptions& workload = line.workload;
    app.add_option("--server", line.servers, "host:port, plain TCP")
        ->expected(1, many ? 4 : 1)
        ->capture_default_str();
    app.add_option("--credentials", line.credentials, "user:password")->capture_default_str();
    app.add_option("--stream", workload.stream, "name of the stream it works on")
        ->capture_default_str();
    app.add_option("--partitions", workload.partitions, "of the topic")
        ->check(CLI::Range(1U, 1000U))
        ->capture_default_str();
    app.add_option("--producers", workload.producers, "connections that produce, or consume")
        ->check(CLI::Range(1U, 256U))
        ->capture_default_str();
    app.add_option("--durability", line.durability, "of the topic")
        ->check(CLI::IsMember({"replicated", "persisted"}))
        ->capture_default_str();
    app.add_flag("--no-topic-options", line.no_topic_options,
                 "create the topic without options (servers before 0.11)");
    app.add_flag("--verify", workload.verify, "consume checks the checksum of every message");
    if (!many) {
        app.add_option("--server-pid", workload.process_id,
                       "process to sample; asked from a server on this machine otherwise");
    }
}

}  // namespace

int main(int argc, char** argv) {
    CommandLine line;
    WorkloadOptions& workload = line.workload;
    CLI::App app("Measures a Galgo server, or another server of its protocol.");
    app.require_subcommand(1);

    CLI::App* produce_command = app.add_subcommand("produce", "send batches, one in flight");
    CLI::App* consume_command = app.add_subcommand("consume", "read back what produce left");
    CLI::App* trip_command = app.add_subcommand("roundtrip", "single messages, sent and polled");
    CLI::App* metadata_command = app.add_subcommand(
        "metadata", "make and delete streams on --producers connections, one in flight each");
    CLI::App* limits_command =
        app.add_subcommand("limits", "the same shapes over bare loopback and a file, no server");
    CLI::App* compare_command = app.add_subcommand(
        "compare", "limits and all workloads, on one or more servers in turns, medians and ratios");
    for (CLI::App* each :
         {produce_command, consume_command, trip_command, metadata_command, compare_command}) {
        add_load_options(*each, line);
        add_server_options(*each, line, each == compare_command);
    }
    add_load_options(*limits_command, line);
    produce_command->add_flag("--create,!--no-create", workload.create,
                              "drop the stream if it is there and make it anew (default)");
    produce_command->add_option("--segment-size", workload.segment_size,
                                "of the topic, as '1 MiB'; default: the server's");
    metadata_command->add_option("--requests", line.requests, "changes in all")
        ->check(CLI::Range(std::uint64_t{2}, std::uint64_t{1'000'000'000}))
        ->capture_default_str();
    consume_command->add_flag("--drop-after", line.drop_after, "delete the stream at the end");
    consume_command
        ->add_option(
            "--auto-commit", workload.auto_commit_consumer,
            "as the consumer of this number, from its stored offset, which each poll moves")
        ->check(CLI::Range(1U, 4'294'967'295U));
    for (CLI::App* each : {trip_command, compare_command}) {
        each->add_flag("--ack-only", workload.ack_only, "only the acknowledgement of the send");
    }
    for (CLI::App* each : {limits_command, compare_command}) {
        each->add_flag("--sync", line.sync, "limits with an fdatasync a batch");
        each->add_option("--folder", line.folder, "where limits write their file")
            ->capture_default_str();
    }
    compare_command->add_option("--rounds", line.rounds, "turns over all servers")
        ->check(CLI::Range(1U, 1000U))
        ->capture_default_str();
    compare_command->add_flag("--no-limits", line.no_limits, "leave the bare machine out");

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 1;
    }
    if (const std::string wrong = complete(line); !wrong.empty()) {
        std::fprintf(stderr, "galgo-bench: %s\n", wrong.c_str());
        return 1;
    }
    const Format format = line.json ? Format::kJson : Format::kTable;
    if (limits_command->parsed()) {
        return show("limits", measure_limits(limits_of(line)), format);
    }
    std::vector<WorkloadOptions> servers;
    for (const std::string& text : line.servers) {
        const Result<sdk::Address> address = sdk::parse_address(text);
        if (!address) {
            std::fprintf(stderr, "galgo-bench: '%s' is not host:port\n", text.c_str());
            return 1;
        }
        servers.push_back(workload);
        servers.back().server = *address;
    }
    if (compare_command->parsed()) {
        const Status done = compare({.servers = servers,
                                     .limits = limits_of(line),
                                     .rounds = line.rounds,
                                     .with_limits = !line.no_limits,
                                     .format = format},
                                    print);
        return done ? 0 : report_failure("compare", done.error());
    }
    if (produce_command->parsed()) {
        return show("produce", as_rows(produce(servers.front())), format);
    }
    if (metadata_command->parsed()) {
        return show("metadata", as_rows(change_metadata(servers.front(), line.requests)), format);
    }
    if (trip_command->parsed()) {
        return show("roundtrip", round_trips(servers.front()), format);
    }
    const int shown = show("consume", as_rows(consume(servers.front())), format);
    if (shown == 0 && line.drop_after) {
        const Status dropped = drop_stream(servers.front());
        return dropped ? 0 : report_failure("drop", dropped.error());
    }
    return shown;
}
