// The only file that includes Boost.Beast.
#include "http/request_parser.hpp"

#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>

#include <exception>
#include <optional>
#include <string_view>

#include "base/check.hpp"

namespace galgo::http {
namespace {

namespace beast = boost::beast;

using Field = beast::http::field;
using Header = beast::http::header<true>;

constexpr unsigned kHttp11 = 11;
/// "0", CRLF, CRLF. Beast asserts that it has so much when it looks at the last chunk again.
constexpr std::size_t kLastChunkBytesMin = 5;

/// A Beast body that counts and forgets.
struct DiscardBody {
    using value_type = std::uint64_t;

    class reader {
     public:
        template <bool IsRequest, class Fields>
        reader(beast::http::header<IsRequest, Fields>& /*header*/, value_type& size) : size_(size) {
            size_ = 0;  // a message leaves it as the memory was: with the count of the one before
        }
        void init(const boost::optional<std::uint64_t>& /*length*/, beast::error_code& error) {
            error = {};
        }
        template <class Buffers>
        std::size_t put(const Buffers& buffers, beast::error_code& error) {
            error = {};
            const std::size_t count = boost::asio::buffer_size(buffers);
            size_ += count;
            return count;
        }
        void finish(beast::error_code& error) { error = {}; }

     private:
        value_type& size_;
    };
};

/// Of bytes that hold lines and begin with one: is there a CR or LF that is not of a CRLF? A CR at
/// the end may still become one.
bool has_bare_line_break(std::string_view lines) noexcept {
    for (std::size_t at = lines.find_first_of("\r\n"); at < lines.size();
         at = lines.find_first_of("\r\n", at + 2)) {
        if (lines[at] == '\n' || (at + 1 < lines.size() && lines[at + 1] != '\n')) {
            return true;
        }
    }
    return false;
}

/// RFC 9112, 6.1 to 6.3: the status for a body whose end we would not see where the sender, or
/// somebody between it and us, sees it. 0: none of those.
unsigned framing_fault(const Header& header) {
    const std::size_t encodings = header.count(Field::transfer_encoding);
    if (encodings == 0) {
        return 0;
    }
    if (encodings > 1 || header.count(Field::content_length) != 0 || header.version() < kHttp11) {
        return 400;
    }
    return beast::iequals(header[Field::transfer_encoding], "chunked") ? 0 : 501;
}

unsigned status_of(const beast::error_code& error) noexcept {
    if (error == beast::http::error::header_limit || error == beast::http::error::buffer_overflow) {
        return 431;
    }
    return error == beast::http::error::body_limit ? 413 : 400;
}

}  // namespace

struct RequestParser::Parser {
    std::optional<beast::http::request_parser<DiscardBody>> beast;
    std::uint64_t chunk_bytes = 0;  ///< of the chunks that have begun

    struct OnChunk {
        Parser& parser;
        void operator()(std::uint64_t bytes, beast::string_view, beast::error_code&) const {
            parser.chunk_bytes += bytes;
        }
    } on_chunk{*this};

    /// Are the next bytes of a header, or in a chunked body of what is not a chunk?
    [[nodiscard]] bool at_lines() const {
        return !beast->is_header_done() ||
               (beast->chunked() && !beast->is_done() && beast->get().body() == chunk_bytes);
    }

    void start(const Limits& limits) {
        chunk_bytes = 0;
        beast.emplace();
        beast->on_chunk_header(on_chunk);
        beast->header_limit(limits.header_bytes_max);
        beast->body_limit(limits.body_bytes_max);
    }
};

RequestParser::RequestParser(Limits limits) : limits_(limits), parser_(std::make_unique<Parser>()) {
    parser_->start(limits_);
}

RequestParser::~RequestParser() = default;

void RequestParser::append(ConstBytes bytes) {
    buffer_.append(as_text(bytes));
}

ParseState RequestParser::advance() {
    if (state_ == ParseState::kNeedHeader || state_ == ParseState::kNeedBody) {
        try {
            state_ = parse();
        } catch (const std::exception&) {
            state_ = fail(400);
        }
    }
    return state_;
}

ParseState RequestParser::parse() {
    auto& beast = *parser_->beast;
    // Empty lines before a request are no request (RFC 9112, 2.2).
    if (!begun_) {
        buffer_.erase(0, buffer_.find_first_not_of("\r\n"));
        begun_ = !buffer_.empty();
    }
    while (!buffer_.empty() && !beast.is_done()) {
        // So much is to come in any case, as the last chunk is taken in one piece. The line of
        // another one that begins with 0 is longer: no byte of a chunk waits here.
        if (state_ == ParseState::kNeedBody && parser_->at_lines() && buffer_.front() == '0' &&
            buffer_.size() < kLastChunkBytesMin) {
            break;
        }
        beast::error_code error;
        const std::size_t used =
            beast.put(boost::asio::const_buffer(buffer_.data(), buffer_.size()), error);
        buffer_.erase(0, used);
        if (error == beast::http::error::need_more) {
            break;
        }
        if (error) {
            return fail(status_of(error));
        }
        // Before the body: trailers are put among the fields, and must not count as sent before it.
        if (state_ == ParseState::kNeedHeader && beast.is_header_done()) {
            read_header_fields();
            if (beast.get().version() == kHttp11 && beast.get().count(Field::host) != 1) {
                return fail(400);
            }
            if (const unsigned fault = framing_fault(beast.get()); fault != 0) {
                return fail(fault);
            }
            state_ = ParseState::kNeedBody;
            beast.eager(true);
            continue;
        }
        if (used == 0) {
            break;
        }
    }
    // What is left is the beginning of a line that Beast would wait to be ended by CRLF, and it
    // bounds those of a header, and of a chunked body the chunks alone.
    if (parser_->at_lines()) {
        if (has_bare_line_break(buffer_)) {
            return fail(400);
        }
        if (buffer_.size() > limits_.header_bytes_max) {
            return fail(431);
        }
    }
    if (!beast.is_header_done()) {
        return ParseState::kNeedHeader;
    }
    return beast.is_done() ? ParseState::kComplete : ParseState::kNeedBody;
}

void RequestParser::read_header_fields() {
    const auto& message = parser_->beast->get();
    const auto copy = [](beast::string_view text) { return std::string(text.data(), text.size()); };
    request_.method = copy(message.method_string());
    request_.target = copy(message.target());
    request_.origin = copy(message[Field::origin]);
    request_.keep_alive = message.keep_alive();
    expects_continue_ =
        message.version() == kHttp11 && beast::iequals(message[Field::expect], "100-continue");
}

ParseState RequestParser::fail(unsigned status) noexcept {
    failure_status_ = status;
    buffer_.clear();
    return ParseState::kFailed;
}

void RequestParser::next() {
    GALGO_CHECK(state_ == ParseState::kComplete);
    parser_->start(limits_);
    state_ = ParseState::kNeedHeader;
    request_ = {};
    begun_ = false;
    expects_continue_ = false;
}

bool RequestParser::take_expects_continue() noexcept {
    const bool expects = expects_continue_;
    expects_continue_ = false;
    return expects;
}

}  // namespace galgo::http
