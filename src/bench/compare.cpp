// Rounds, medians, ratios.
#include "bench/compare.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace galgo::bench {
namespace {

Result<std::vector<Row>> one_server(const WorkloadOptions& options) {
    std::vector<Row> rows;
    GALGO_TRY_ASSIGN(Row produced, produce(options));
    rows.push_back(std::move(produced));
    GALGO_TRY_ASSIGN(Row consumed, consume(options));
    rows.push_back(std::move(consumed));
    // In front of the round trips: deleting a gigabyte disturbs what runs beside it.
    GALGO_TRY(drop_stream(options));
    GALGO_TRY_ASSIGN(std::vector<Row> small, round_trips(options));
    std::ranges::move(small, std::back_inserter(rows));
    return rows;
}

const Row* find(const std::vector<Row>& rows, const std::string& server, const std::string& name) {
    const auto found = std::ranges::find_if(
        rows, [&](const Row& row) { return row.server == server && row.name == name; });
    return found == rows.end() ? nullptr : &*found;
}

/// One row for each server and name, in the order of their first appearance.
std::vector<Row> medians(const std::vector<Row>& rows) {
    std::vector<Row> out;
    for (const Row& row : rows) {
        if (find(out, row.server, row.name) != nullptr) {
            continue;
        }
        std::vector<Row> same;
        std::ranges::copy_if(rows, std::back_inserter(same), [&](const Row& other) {
            return other.server == row.server && other.name == row.name;
        });
        out.push_back(median(same));
    }
    return out;
}

}  // namespace

Status compare(const CompareOptions& options,
               const std::function<void(const std::string&)>& print) {
    const bool is_table = options.format == Format::kTable;
    print(header_line(options.format));
    std::vector<Row> rows;
    const auto take = [&](std::vector<Row> more) {
        for (Row& row : more) {
            print(line(row, options.format));
            rows.push_back(std::move(row));
        }
    };
    for (std::uint32_t round = 0; round < options.rounds; ++round) {
        if (options.with_limits) {
            GALGO_TRY_ASSIGN(std::vector<Row> limits, measure_limits(options.limits));
            take(std::move(limits));
        }
        for (const WorkloadOptions& server : options.servers) {
            GALGO_TRY_ASSIGN(std::vector<Row> measured, one_server(server));
            take(std::move(measured));
        }
    }
    const std::vector<Row> middle = medians(rows);
    if (options.rounds > 1 && is_table) {
        print("\nmedians of " + std::to_string(options.rounds) + " rounds\n");
        for (const Row& row : middle) {
            print(line(row, options.format));
        }
    }
    if (is_table) {
        print("\nratios\n");
    }
    const std::string base =
        options.servers.empty() ? std::string() : sdk::to_string(options.servers.front().server);
    for (const Row& row : middle) {
        if (row.server == "limit") {
            continue;
        }
        if (const Row* limit = find(middle, "limit", row.name); limit != nullptr) {
            print(ratio_line(row, *limit, options.format));
        }
        if (row.server != base) {
            if (const Row* other = find(middle, base, row.name); other != nullptr) {
                print(ratio_line(row, *other, options.format));
            }
        }
    }
    return {};
}

}  // namespace galgo::bench
