#include "hugectr_lite/preparation/io/input_file.h"

#include <algorithm>
#include <cstring>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"

namespace hlite::prep {

// Sums of bytes, 255 at most, so that the compiler compares and adds 32 at a time.
static int64_t count_lines(const char* bytes, size_t size) {
  int64_t lines = 0;
  while (size > 0) {
    const size_t part = std::min<size_t>(size, 255 * 32);
    uint8_t sums[32] = {};
    size_t i = 0;
    for (; i + 32 <= part; i += 32)
      for (size_t j = 0; j < 32; ++j)
        sums[j] = static_cast<uint8_t>(sums[j] + (bytes[i + j] == '\n'));
    for (const uint8_t sum : sums) lines += sum;
    for (; i < part; ++i) lines += bytes[i] == '\n';
    bytes += part;
    size -= part;
  }
  return lines;
}

// Returns true if a quote at `at`, outside of quoted fields, is the first character of a field.
static bool begins_field(std::string_view text, size_t at, const TextForm& form) {
  while (form.trim && at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\t') &&
         text[at - 1] != form.separator) {
    --at;
  }
  return at == 0 || text[at - 1] == form.separator || text[at - 1] == '\n';
}

// Returns true if a quote at `at` is in a comment. `closed`: the end of the last quoted field; a line
// that begins before it is a part of a row that has been looked at.
static bool is_in_comment(std::string_view text, size_t at, size_t closed, const TextForm& form) {
  if (form.comments.empty()) return false;
  const size_t begin = text.rfind('\n', at) + 1;  // npos + 1 is 0
  return begin >= closed && std::any_of(form.comments.begin(), form.comments.end(),
                                        [line = text.substr(begin)](const std::string& mark) {
                                          return line.starts_with(mark);
                                        });
}

size_t find_whole_rows(std::string_view text, const TextForm& form,
                       std::vector<size_t>& inner_feeds, size_t& open_quote) {
  constexpr size_t kNone = std::string_view::npos;
  inner_feeds.clear();
  open_quote = kNone;
  size_t closed = 0;
  for (size_t at = form.quotes ? text.find('"') : kNone; at != kNone; at = text.find('"', at)) {
    const size_t open = at++;
    if (!begins_field(text, open, form)) continue;
    if (is_in_comment(text, open, closed, form)) {
      at = text.find('\n', open);
      continue;
    }
    size_t close = text.find('"', at);
    while (close != kNone && close + 1 < text.size() && text[close + 1] == '"')
      close = text.find('"', close + 2);
    if (close == kNone) {
      open_quote = open;
      break;
    }
    const std::string_view field = text.substr(0, close);
    for (size_t feed = field.find('\n', at); feed != kNone; feed = field.find('\n', feed + 1))
      inner_feeds.push_back(feed);
    at = closed = close + 1;
  }
  size_t whole = std::min(open_quote, text.size());
  for (; whole > 0; --whole) {
    if (text[whole - 1] != '\n') continue;
    if (inner_feeds.empty() || inner_feeds.back() != whole - 1) break;
    inner_feeds.pop_back();
  }
  return whole;
}

void InputFile::fail_no_row(std::string_view text, size_t open_quote, size_t capacity) const {
  if (open_quote == std::string_view::npos)
    raise<DataError>("{}:{}: expected a row of at most {} bytes, found a longer one", name(),
                     next_line_, capacity);
  raise<DataError>(
      "{}:{}: expected a closing quote {}, found none for {}", name(),
      next_line_ + count_lines(text.data(), open_quote),
      end_ ? "before the end of the file" : fmt::format("in a row of at most {} bytes", capacity),
      in_quotes(text.substr(open_quote)));
}

void InputFile::refuse_binary(std::string_view head) const {
  constexpr size_t kSampledRecords = 4096;
  const size_t zero = head.substr(0, kSampledRecords).find('\0');
  if (zero != std::string_view::npos)
    raise<DataError>(
        "{}: expected lines of text, found binary data (byte {} is 0): {}; UTF-16 has to be "
        "converted to UTF-8, and prepared records go to train, and to predict without --prepared",
        name(), zero, in_quotes(head));
}

bool InputFile::next(LineBlock& block, size_t capacity) {
  block.size = 0;
  block.first_line = next_line_;
  block.lines = 0;
  if (block.bytes.size() < capacity + 1) block.bytes.resize(capacity + 1);
  char* bytes = block.bytes.data();
  std::copy(rest_.begin(), rest_.end(), bytes);
  size_t size = rest_.size();
  rest_.clear();
  if (!end_) {
    size += stream_->read(bytes + size, capacity - size);
    end_ = size < capacity;
  }
  if (next_line_ == 1 && !stream_->is_parquet()) refuse_binary({bytes, size});
  if (next_line_ == 1 && std::string_view(bytes, size).starts_with(kByteOrderMark)) {
    size -= kByteOrderMark.size();
    std::memmove(bytes, bytes + kByteOrderMark.size(), size);
  }
  if (size == 0) return false;

  const bool add_feed = end_ && bytes[size - 1] != '\n';
  bytes[size] = '\n';
  const std::string_view text(bytes, size + (add_feed ? 1 : 0));
  size_t open_quote = 0;
  const size_t whole = find_whole_rows(text, form_, block.inner_feeds, open_quote);
  if (whole == 0) fail_no_row(text, open_quote, capacity);
  rest_.assign(bytes + whole, bytes + std::max(whole, size));
  block.size = whole;
  block.lines = count_lines(bytes, whole);
  next_line_ += block.lines;
  return true;
}

}  // namespace hlite::prep
