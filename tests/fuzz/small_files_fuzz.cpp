// Any bytes as the small files of a data directory; byte 0 chooses which. Laws:
//   consumer offset   loaded or named as damaged, never both and never dropped; encodes to itself
//   FORMAT            opened exactly when its first line names a version that we know; not changed
//   incarnation       a log of another life goes, all else stays, whatever the file says; it says
//                     whose the directory is afterwards
//   ledger, journals  with the checksum made right, each list decodes to what encodes to itself, or
//                     not at all
//   file names        what parses names the same file again
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "crypto/hash.hpp"
#include "fuzz_target.hpp"
#include "log_rig.hpp"
#include "storage/data_directory.hpp"
#include "storage/journal_format.hpp"
#include "storage/journal_list.hpp"
#include "storage/ledger.hpp"
#include "storage/offsets_file.hpp"
#include "storage/segment_format.hpp"

namespace galgo::fuzz {
namespace {

constexpr std::size_t kInputBytesMax = 4096;

// docs/formats/offsets.md, segment.md
constexpr std::string_view kOffsetKind = "GCO2";
constexpr std::string_view kUnboundOffsetKind = "GCO1";  // of the form before
constexpr std::string_view kIncarnationKind = "GNC1";

/// Of a value of 8 bytes, under a kind of 4.
std::uint64_t kind_checksum(std::string_view kind, ConstBytes value) {
    std::array<std::byte, 12> bytes{};
    std::ranges::copy(std::as_bytes(std::span(kind)), bytes.begin());
    std::ranges::copy(value.first(8), bytes.begin() + 4);
    return crypto::xxh3_64(bytes);
}

// ---- consumer offsets
constexpr std::uint32_t kConsumer = 7;
const storage::OffsetsHome kHome{
    .directory = "/p", .partition = PartitionKey{5}, .incarnation = Incarnation{3}};

/// Of a value of 8 bytes in the file of that consumer.
std::uint64_t offset_checksum(ConstBytes value) {
    std::array<std::byte, 32> bytes{};
    std::ranges::copy(std::as_bytes(std::span(kOffsetKind)), bytes.begin());
    store<std::uint32_t>(bytes, 4, kConsumer);
    store<std::uint64_t>(bytes, 8, kHome.partition.value());
    store<std::uint64_t>(bytes, 16, kHome.incarnation.value());
    std::ranges::copy(value.first(8), bytes.begin() + 24);
    return crypto::xxh3_64(bytes);
}

void check_offset_file(ConstBytes bytes) {
    runtime_sim::TestWorld world(1);
    runtime_sim::Node& node = world.add_node();
    node.disk->write_file("/p/offsets/consumers/7", bytes);
    const auto loaded = world.run(node, storage::load_offsets(*node.io, kHome));
    GALGO_CHECK(loaded.has_value());
    GALGO_CHECK(loaded->offsets.size() + loaded->damaged.size() == 1);
    const auto decode = [bytes](storage::OffsetOwner owner) {
        return storage::decode_offset_file(kHome, owner, kConsumer, bytes);
    };
    const auto offset = decode(storage::OffsetOwner::kConsumer);
    GALGO_CHECK(!decode(storage::OffsetOwner::kGroup) || !offset);
    GALGO_CHECK(offset.has_value() == !loaded->offsets.empty());
    if (!offset.has_value()) {
        return;
    }
    GALGO_CHECK(loaded->offsets.front().offset == *offset);
    const auto encoded = storage::encode_offset_file(
        kHome, {.owner = storage::OffsetOwner::kConsumer, .id = kConsumer, .offset = *offset});
    GALGO_CHECK(load<std::uint64_t>(encoded, 8) == offset_checksum(bytes));
    GALGO_CHECK(std::ranges::equal(bytes, encoded) ||
                load<std::uint64_t>(bytes, 8) == kind_checksum(kUnboundOffsetKind, bytes));
}

// ---- FORMAT
/// A real folder, because this file is read before there is a ring. One for all runs.
class Folder {
 public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "galgo-fuzz-XXXXXX").string();
        GALGO_CHECK(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
    std::string path_;
};

bool is_known_format(std::string_view text) {
    constexpr std::string_view kBegin = "galgo-data-format ";
    std::string_view line = text.substr(0, text.find('\n'));
    if (!line.starts_with(kBegin)) {
        return false;
    }
    line.remove_prefix(kBegin.size());
    std::uint32_t version = 0;
    const char* end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data(), end, version);
    return error == std::errc{} && stop == end && version >= storage::kDataFormatUpgradable &&
           version <= storage::kDataFormatVersion;
}

void check_format_file(ConstBytes bytes) {
    static const Folder folder;
    const std::string name = folder.path() + "/FORMAT";
    const std::string_view text = as_text(bytes);
    std::ofstream(name, std::ios::binary | std::ios::trunc) << text;
    const auto opened = storage::DataDirectory::open({.path = folder.path(), .lock_wait_ms = 0});
    GALGO_CHECK(opened.has_value() == is_known_format(text));
    if (!opened.has_value()) {
        GALGO_CHECK(opened.error().starts_with("data directory "));
        GALGO_CHECK(opened.error().find('\n') == std::string::npos);
    }
    std::ifstream file(name, std::ios::binary);
    const std::string after((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
    GALGO_CHECK(after == text);
}

// ---- incarnation
void check_incarnation_file(ConstBytes bytes) {
    constexpr Incarnation kNow{5};
    LogRig rig;
    rig.write("incarnation", bytes);
    rig.write("00000000000000000000.log", make_batch(Offset{0}, 3, Timestamp{1}));
    rig.open(kNow);
    const bool sound = bytes.size() == 16 &&
                       load<std::uint64_t>(bytes, 8) == kind_checksum(kIncarnationKind, bytes);
    const bool other = sound && Incarnation(load<std::uint64_t>(bytes, 0)) != kNow;
    GALGO_CHECK(rig.log().end_offset() == Offset(other ? 0 : 3));
    GALGO_CHECK(rig.read_all(10, true).size() == (other ? 0U : 3U));
    GALGO_CHECK(rig.append(1).has_value());
    rig.close();
    const auto file = rig.disk().read_file(kLogDirectory + "/incarnation");
    GALGO_CHECK(file.has_value() && file->size() == 16 &&
                load<std::uint64_t>(*file, 0) == kNow.value());
    rig.open(kNow);
    GALGO_CHECK(rig.read_all(10, true).size() == (other ? 1U : 4U));
}

// ---- ledger, list of journals
/// A fuzzer does not guess a checksum: it is put where the sizes in the bytes say that it stands.
std::vector<std::byte> with_checksum(ConstBytes bytes, std::size_t size) {
    std::vector<std::byte> whole(bytes.begin(), bytes.end());
    if (size >= 8 && size <= whole.size()) {
        store<std::uint64_t>(MutableBytes(whole), size - 8,
                             crypto::xxh3_64(ConstBytes(whole).first(size - 8)));
    }
    return whole;
}

template <class Decode, class Encode>
void check_round(ConstBytes bytes, Decode decode, Encode encode) {
    const auto decoded = decode(bytes);
    if (decoded.has_value()) {
        const std::vector<std::byte> encoded = encode(*decoded);
        GALGO_CHECK(encoded.size() <= bytes.size() && decode(encoded) == decoded);
    }
}

void check_evidence(ConstBytes bytes) {
    if (bytes.size() < 48) {
        return;
    }
    check_round(with_checksum(bytes, load<std::uint64_t>(bytes, 40)), storage::decode_ledger,
                storage::encode_ledger);
    const std::uint64_t count = load<std::uint64_t>(bytes, 40);
    if (count <= storage::kJournalListMax) {
        check_round(with_checksum(bytes, 56 + 16 * static_cast<std::size_t>(count)),
                    storage::decode_journal_list, storage::encode_journal_list);
    }
}

// ---- names
void check_names(std::string_view name) {
    for (const std::string_view extension : {storage::kLogExtension, storage::kIndexExtension}) {
        if (const auto start = storage::parse_segment_file_name(name, extension)) {
            GALGO_CHECK(storage::segment_file_name(*start, extension) == name);
        }
    }
    if (const auto parsed = storage::parse_journal_file_name(name)) {
        GALGO_CHECK(storage::journal_file_name(parsed->shard, parsed->sequence) == name);
    }
}

void run(std::uint8_t which, ConstBytes bytes) {
    switch (which % 5) {
        case 0:
            return check_offset_file(bytes);
        case 1:
            return check_format_file(bytes);
        case 2:
            return check_incarnation_file(bytes);
        case 3:
            return check_evidence(bytes);
        default:
            return check_names(as_text(bytes));
    }
}

}  // namespace
}  // namespace galgo::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size >= 1 && size <= galgo::fuzz::kInputBytesMax) {
        galgo::fuzz::run(data[0], std::as_bytes(std::span(data, size)).subspan(1));
    }
    return 0;
}

/// The checksum of the two files that have one.
extern "C" void seal_fuzz_input(std::uint8_t* data, std::size_t size, bool structure) {
    const auto bytes = std::as_writable_bytes(std::span(data, size));
    if (size == 17 && (structure || data[0] % 2 == 0)) {
        const auto value = bytes.subspan(1);
        galgo::store<std::uint64_t>(
            bytes, 9,
            data[0] % 4 == 2 ? galgo::fuzz::kind_checksum(galgo::fuzz::kIncarnationKind, value)
                             : galgo::fuzz::offset_checksum(value));
    }
}
