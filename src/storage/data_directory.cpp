// The root of everything a node stores. Plain system calls: see the header.
#include "storage/data_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <format>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace galgo::storage {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormatPrefix = "galgo-data-format ";
constexpr std::string_view kFormatLayout =
    "layout: metadata/{superblock,journal.wal.*,snapshot.*} state/journal-*.wal "
    "streams/S/topics/T/partitions/P/{segments,offsets}\n";
constexpr std::string_view kFormatEncryption = "encryption:";
constexpr mode_t kDirectoryMode = 0750;
constexpr mode_t kPrivateMode = 0700;
constexpr std::chrono::milliseconds kLockRetry{20};

std::unexpected<std::string> refuse(const std::string& path, std::string_view what, int error) {
    return std::unexpected(
        std::format("data directory {}: {}: {}", path, what, std::strerror(error)));
}

int sync_path(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return errno;
    }
    const int result = ::fsync(file) == 0 ? 0 : errno;
    ::close(file);
    return result;
}

/// Makes the name of `path` (which does not end in '/') stable in the directory above. 0 or errno;
/// one that may not be opened, or whose file system knows no sync of directories, is left as it is.
int sync_parent(const std::string& path) {
    const std::size_t end = path.rfind('/');
    const int error =
        sync_path(end == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(end, 1)));
    return error == EACCES || error == EINVAL || error == EROFS ? 0 : error;
}

/// Makes the directory and its parents; what is new has a stable name. 0 or errno.
int make_directories(const std::string& path, mode_t mode) {
    for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string part = path.substr(0, end);
        if (::mkdir(part.c_str(), mode) == 0) {
            if (const int error = sync_parent(part); error != 0) {
                return error;
            }
        } else if (errno != EEXIST) {
            return errno;
        }
        if (end == std::string::npos) {
            return 0;
        }
    }
}

int take_lock(int file, std::uint32_t wait_ms) {
    std::chrono::milliseconds waited{
        0};  // counted, not measured: only runtime and above see a clock
    while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return errno;
        }
        if (waited >= std::chrono::milliseconds(wait_ms)) {
            return EWOULDBLOCK;
        }
        std::this_thread::sleep_for(kLockRetry);
        waited += kLockRetry;
    }
    return 0;
}

/// What is there before anybody stores anything: LOCK, and the fsck folder of a new volume.
bool is_ignored(const fs::path& name) {
    return name == "LOCK" || name == "lost+found";
}

/// A slip in a path must not cost the files of somebody else: nothing stored yet, or a name that a
/// server of this protocol gives.
bool may_be_emptied(const std::string& path) {
    bool is_empty = true;
    std::error_code error;
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
        const fs::path name = it->path().filename();
        if (name == "FORMAT" || name == "metadata" || name == "state" || name == "streams" ||
            name == "ENCRYPTION") {
            return true;
        }
        is_empty = is_empty && is_ignored(name);
    }
    return is_empty;
}

std::error_code delete_content(const std::string& path) {
    std::error_code error;
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
        if (!is_ignored(it->path().filename())) {
            fs::remove_all(it->path(), error);
            if (error) {
                break;
            }
        }
    }
    return error;
}

/// Empty, or what went wrong.
std::string write_format(const std::string& path, std::uint32_t version, bool encrypted) {
    const std::string name = path + "/FORMAT";
    const std::string temporary = name + ".tmp";
    std::ofstream out(temporary, std::ios::trunc);
    out << kFormatPrefix << version << '\n' << kFormatLayout;
    if (encrypted) {
        out << kFormatEncryption << " the file ENCRYPTION says which key\n";
    }
    out.close();
    if (!out || sync_path(temporary) != 0 || ::rename(temporary.c_str(), name.c_str()) != 0 ||
        sync_path(path) != 0) {
        return std::format("data directory {}: cannot write FORMAT: {}", path,
                           std::strerror(errno));
    }
    return {};
}

/// Empty when the file says a version that we know.
std::string read_format(const std::string& path, std::ifstream& file, std::uint32_t& version,
                        bool& encrypted) {
    std::string line;
    std::getline(file, line);
    version = 0;
    const char* begin = line.data() + std::min(line.size(), kFormatPrefix.size());
    const auto [end, error] = std::from_chars(begin, line.data() + line.size(), version);
    if (!line.starts_with(kFormatPrefix) || error != std::errc{} ||
        end != line.data() + line.size() || version == 0) {
        return std::format(
            "data directory {0}: FORMAT is damaged or not ours: restore it, or, when this "
            "directory "
            "was written by this version, write the line \"{1}{2}\" to {0}/FORMAT",
            path, kFormatPrefix, kDataFormatVersion);
    }
    if (version > kDataFormatVersion) {
        return std::format(
            "data directory {}: written by a newer version (format {}, this one knows {})", path,
            version, kDataFormatVersion);
    }
    if (version < kDataFormatUpgradable) {
        return std::format(
            "data directory {}: FORMAT names the older layout {}, this version reads {}: use the "
            "version that wrote it, another data path, or give up all data with --fresh",
            path, version, kDataFormatVersion);
    }
    while (std::getline(file, line)) {
        encrypted = encrypted || line.starts_with(kFormatEncryption);
    }
    return {};
}

}  // namespace

DataDirectory::DataDirectory(std::string path, int lock) noexcept
    : path_(std::move(path)), lock_(lock) {}
DataDirectory::DataDirectory(DataDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      lock_(std::exchange(other.lock_, -1)),
      version_(other.version_),
      encrypted_(other.encrypted_) {}
DataDirectory& DataDirectory::operator=(DataDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_, other.lock_);
    std::swap(version_, other.version_);
    std::swap(encrypted_, other.encrypted_);
    return *this;
}
DataDirectory::~DataDirectory() {
    if (lock_ >= 0) {
        ::close(lock_);
    }
}

std::expected<DataDirectory, std::string> DataDirectory::open(const DataDirectoryOptions& options) {
    std::string path = options.path;
    while (path.size() > 1 && path.ends_with('/')) {
        path.pop_back();
    }
    if (path.empty()) {
        return std::unexpected(std::string("data directory: the path is empty"));
    }
    if (const int error = make_directories(path, kDirectoryMode); error != 0) {
        return refuse(path, "cannot make it", error);
    }
    // Always: a process that was killed may have made it and not come this far.
    if (const int error = sync_parent(path); error != 0) {
        return refuse(path, "cannot sync its parent", error);
    }
    const int file = ::open((path + "/LOCK").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (file < 0) {
        return refuse(path, "cannot open LOCK", errno);
    }
    DataDirectory directory(path, file);
    if (const int error = take_lock(file, options.lock_wait_ms); error != 0) {
        if (error == EWOULDBLOCK) {
            return std::unexpected(
                std::format("data directory {}: another process is using it", path));
        }
        return refuse(path, "cannot lock it", error);
    }
    if (options.fresh) {
        if (!may_be_emptied(path)) {
            return std::unexpected(
                std::format("data directory {}: it holds files that are not a server's; nothing "
                            "was deleted: give another path, or empty it by hand",
                            path));
        }
        if (const std::error_code error = delete_content(path)) {
            return std::unexpected(std::format("data directory {}: cannot delete its content: {}",
                                               path, error.message()));
        }
    }
    std::ifstream format(path + "/FORMAT");
    std::string problem = format
                              ? read_format(path, format, directory.version_, directory.encrypted_)
                              : write_format(path, directory.version_, directory.encrypted_);
    if (!problem.empty()) {
        return std::unexpected(std::move(problem));
    }
    for (const auto& [name, mode] : {std::pair{directory.metadata(), kPrivateMode},
                                     std::pair{directory.state(), kDirectoryMode},
                                     std::pair{directory.trash(), kDirectoryMode}}) {
        if (const int error = make_directories(name, mode); error != 0) {
            return refuse(path, "cannot make its directories", error);
        }
    }
    if (const int error = sync_path(path); error != 0) {
        return refuse(path, "cannot sync it", error);
    }
    return directory;
}

std::expected<DataDirectory, std::string> DataDirectory::inspect(
    const DataDirectoryOptions& options) {
    const std::string& path = options.path;
    std::error_code error;
    if (!fs::is_directory(path, error)) {
        return refuse(path, "cannot read it", error ? error.value() : ENOTDIR);
    }
    DataDirectory directory(path, ::open((path + "/LOCK").c_str(), O_RDONLY | O_CLOEXEC));
    if (directory.lock_ >= 0) {
        const int locked = take_lock(directory.lock_, options.lock_wait_ms);
        if (locked == EWOULDBLOCK) {
            return std::unexpected(
                std::format("data directory {}: another process is using it", path));
        }
        if (locked != 0) {
            ::close(std::exchange(directory.lock_, -1));
        }
    }
    std::ifstream format(path + "/FORMAT");
    if (format) {
        std::string problem = read_format(path, format, directory.version_, directory.encrypted_);
        if (!problem.empty()) {
            return std::unexpected(std::move(problem));
        }
    }
    return directory;
}

std::string DataDirectory::finish_upgrade() {
    std::string problem =
        is_upgrading() ? write_format(path_, kDataFormatVersion, encrypted_) : std::string();
    if (problem.empty()) {
        version_ = kDataFormatVersion;
    }
    return problem;
}

std::string DataDirectory::note_encryption() {
    std::string problem = encrypted_ ? std::string() : write_format(path_, version_, true);
    encrypted_ = problem.empty();
    return problem;
}

std::string DataDirectory::partition(std::uint32_t stream, std::uint32_t topic,
                                     std::uint32_t partition) const {
    return std::format("{}/streams/{}/topics/{}/partitions/{}", path_, stream, topic, partition);
}

}  // namespace galgo::storage
