#include "sim/swarm.hpp"

#include <format>

namespace galgo::sim {
namespace {

/// Off in half of the seeds; else anything up to `max` per million, small ones as likely as large.
Odds some(Random& random, std::uint64_t max_per_million) {
    return random.coin() ? Odds::never() : Odds::per_million(random.spread(100, max_per_million));
}
Time sometimes(Random& random, Time low, Time high) {
    return random.coin() ? 0 : random.spread(low, high);
}

constexpr Time kSecond = 1'000'000;

void draw_disk(Random& random, Swarm& swarm) {
    DiskOdds& disk = swarm.disk;
    disk.latency_max = random.spread(100, 20'000);
    disk.slow = some(random, 50'000);
    disk.slow_max = disk.latency_max + random.spread(10'000, kSecond);
    disk.torn_sector = random.coin() ? Odds::never() : Odds::percent(random.between(5, 60));
    disk.read_error = some(random, 200'000);
    // What damages a disk in silence and what makes it report errors never meet in one run: a log
    // whose errors keep it from being marked cannot tell damage from a torn tail.
    if (random.below(3) == 0) {
        disk.write_lost = some(random, 20'000);
        disk.write_misdirected = some(random, 20'000);
        swarm.rot_mean = sometimes(random, 2 * kSecond, 40 * kSecond);
        disk.read_error = Odds::never();
        return;
    }
    // A failed append takes a replica out of a cluster for good.
    const std::uint64_t max = swarm.nodes == 1 ? 30'000 : 1'000;
    disk.write_error = some(random, max);
    disk.sync_error = some(random, max);
    swarm.full_mean =
        swarm.nodes == 1 || random.below(8) == 0 ? sometimes(random, kSecond, 60 * kSecond) : 0;
}

void draw_network(Random& random, Swarm& swarm) {
    NetworkOdds& network = swarm.network;
    network.latency_max = random.spread(200, 20'000);
    network.delayed = some(random, 100'000);
    network.lost = some(random, 300'000);
    network.doubled = some(random, 200'000);
    network.reordered = some(random, 300'000);
    network.corrupted = some(random, 50'000);
    network.forged = some(random, 20'000);
    swarm.partition_mean = sometimes(random, kSecond, 60 * kSecond);
    swarm.partition_max = random.spread(100'000, 20 * kSecond);
}

void draw_clients(Random& random, Swarm& swarm) {
    ClientOdds& client = swarm.client;
    client.request_lost = some(random, 100'000);
    client.request_doubled = some(random, 100'000);
    client.reply_lost = some(random, 100'000);
    client.old_request = some(random, 200'000);
    client.wrong_checksum = Odds::percent(10);
    client.logout = some(random, 50'000);
    client.any_node = Odds::percent(random.between(10, 100));
    client.think_min = random.spread(1'000, 50'000);
    client.think_max = client.think_min + random.spread(10'000, 2 * kSecond);
    client.timeout = random.spread(20'000, 2 * kSecond);
}

void draw_crashes(Random& random, Swarm& swarm) {
    const bool alone = swarm.nodes == 1;
    swarm.crash_of_power = Odds::percent(random.between(0, 101));
    swarm.crash_in_boot = some(random, 500'000);
    swarm.restart_max = random.spread(1'000, 5 * kSecond);
    swarm.crash_mean = alone ? sometimes(random, kSecond, 20 * kSecond)
                             : sometimes(random, 5 * kSecond, 100 * kSecond);
    swarm.crash_boundary_mean =
        alone ? sometimes(random, 20, 3'000) : sometimes(random, 500, 30'000);
    swarm.crashes_max =
        alone ? ~std::uint32_t{0} : static_cast<std::uint32_t>(random.between(0, 2));
    swarm.crash_primary = alone || random.below(5) == 0;
    swarm.disk_lost =
        alone || random.below(4) == 0 ? Odds::never() : Odds::percent(random.between(50, 100));
    swarm.pause_mean = sometimes(random, kSecond, 60 * kSecond);
    swarm.pause_max = random.spread(10'000, 10 * kSecond);
    swarm.jump_mean = sometimes(random, kSecond, 60 * kSecond);
    for (std::uint8_t i = 0; i < kNodesMax; ++i) {
        if (random.coin()) {
            swarm.drift_ppm[i] = static_cast<std::int64_t>(random.between(0, 100'000)) - 50'000;
        }
        swarm.offset_us[i] = static_cast<std::int64_t>(random.between(0, 4 * kSecond)) -
                             static_cast<std::int64_t>(2 * kSecond);
    }
}

}  // namespace

Swarm draw_swarm(std::uint64_t seed) {
    Random random = Random::child(seed, 1);
    Swarm swarm;
    swarm.seed = seed;
    swarm.nodes = random.coin() ? 1 : 3;
    swarm.clients = static_cast<std::uint8_t>(random.between(1, kClientsMax));
    swarm.ticks = random.spread(500, 8'000);
    swarm.log_sectors = static_cast<std::uint32_t>(random.spread(64, SectorDisk::kSectors / 2));
    swarm.sessions_max = static_cast<std::uint32_t>(random.between(2, 10));
    swarm.reply_bytes_max = static_cast<std::uint32_t>(random.spread(64, 8192));
    swarm.pipeline_max = static_cast<std::uint8_t>(random.between(1, 127));
    swarm.memory_entries = static_cast<std::uint8_t>(random.between(1, 127));
    swarm.reset_sessions_at_boot = random.coin();
    draw_disk(random, swarm);
    draw_network(random, swarm);
    draw_clients(random, swarm);
    draw_crashes(random, swarm);
    return swarm;
}

std::string Swarm::describe() const {
    const auto ppm = [](Odds odds) { return odds.of_2_32 * 1'000'000 >> 32U; };
    return std::format(
        "seed {}: {} node(s), {} client(s), {} ticks, {} sectors; sessions {}, pipeline {}, memory "
        "{}, "
        "sessions reset {}\n"
        "  disk ppm: lost {} misdirected {} write error {} sync error {} read error {} slow {} "
        "torn "
        "sector {}; latency <= {} us; rot every {} us, full every {} us\n"
        "  network ppm: delayed {} lost {} doubled {} reordered {} corrupted {} forged {}; latency "
        "<= "
        "{} us; cut every {} us for <= {} us\n"
        "  clients ppm: request lost {} doubled {}, reply lost {}, old request {}, logout {}; "
        "think "
        "{}..{} us, timeout {} us\n"
        "  crash every {} us and every {} steps, <= {}, primary {}, of power {} ppm, in boot {} "
        "ppm, disk lost {} ppm; "
        "pause every {} us, clock jump every {} us\n",
        seed, nodes, clients, ticks, log_sectors, sessions_max, pipeline_max, memory_entries,
        reset_sessions_at_boot, ppm(disk.write_lost), ppm(disk.write_misdirected),
        ppm(disk.write_error), ppm(disk.sync_error), ppm(disk.read_error), ppm(disk.slow),
        ppm(disk.torn_sector), disk.latency_max, rot_mean, full_mean, ppm(network.delayed),
        ppm(network.lost), ppm(network.doubled), ppm(network.reordered), ppm(network.corrupted),
        ppm(network.forged), network.latency_max, partition_mean, partition_max,
        ppm(client.request_lost), ppm(client.request_doubled), ppm(client.reply_lost),
        ppm(client.old_request), ppm(client.logout), client.think_min, client.think_max,
        client.timeout, crash_mean, crash_boundary_mean, crashes_max, crash_primary,
        ppm(crash_of_power), ppm(crash_in_boot), ppm(disk_lost), pause_mean, jump_mean);
}

}  // namespace galgo::sim
