#include "heed/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "heed/file_kind.h"
#include "io/file_system.h"
#include "train/state.h"

namespace heed::inline v0 {
namespace {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

constexpr std::string_view kBegin("heed tokens\0\1\0\0\0", 16), kEnd = "heed end";
constexpr int64_t kPairsOfBlock = int64_t{1} << 14, kTokensOfBlock = int64_t{1} << 16;
constexpr uint64_t kLeastOfBlock = uint64_t{1} << 17;  // bytes of a full block
constexpr uint64_t kMostOfInfo = uint64_t{1} << 28;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

struct Block {
  uint64_t begin = 0;
  uint32_t tokens = 0, ids_crc32 = 0, ends_crc32 = 0, zero = 0;
};
static_assert(sizeof(Block) == 24);

struct Trailer {
  uint64_t blocks = 0, info = 0;
  uint32_t crc32 = 0, zero = 0;
  char end[8] = {};
};
static_assert(sizeof(Trailer) == 32);

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
template <class T>
std::span<std::byte> room_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

uint64_t up_to_4(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

std::string write_info(const TokenFileInfo& info, int64_t id_bytes) {
  return ConfigWriter()
      .set("kind", info.text ? "text" : "pairs")
      .set("id_bytes", id_bytes)
      .set("pairs", info.pairs)
      .set("source_tokens", info.source_tokens)
      .set("target_tokens", info.target_tokens)
      .set("bytes", info.bytes)
      .set("characters", info.characters)
      .set("vocabulary", info.vocabulary)
      .set("source_vocabulary", info.source_vocabulary)
      .text();
}

TokenFileInfo read_info(const std::string& json, const std::string& path, int64_t* id_bytes) {
  ConfigReader reader(json, path);
  TokenFileInfo info;
  info.text = reader.one_of("kind", {"pairs", "text"}) == "text";
  *id_bytes = reader.integer("id_bytes", 2, 4);
  if (*id_bytes == 3) throw FormatError(path + ": id_bytes is 3; it must be 2 or 4");
  info.pairs = reader.integer("pairs", 0, kMost);
  info.source_tokens = reader.integer("source_tokens", 0, kMost);
  info.target_tokens = reader.integer("target_tokens", 0, kMost);
  info.bytes = reader.integer("bytes", 0, kMost);
  info.characters = reader.integer("characters", 0, kMost);
  info.vocabulary = reader.string("vocabulary");
  info.source_vocabulary = reader.string("source_vocabulary");
  reader.finish();
  return info;
}

}  // namespace

bool is_token_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  const Descriptor fd(path, O_RDONLY);
  char begin[11] = {};
  return fd.ok() && ::pread(fd.get(), begin, sizeof begin, 0) == std::ssize(begin) &&
         kBegin.starts_with(std::string_view(begin, sizeof begin));
}

// ---------------------------------------------------------------------------------------------- writing

struct TokenWriter::State {
  FileWriter& file;
  TokenFileInfo info{};
  int64_t id_bytes;
  uint64_t at = kBegin.size();
  Block block{.begin = kBegin.size()};
  std::vector<uint32_t> ends{};  // ends of the block's texts
  std::vector<Block> blocks{};

  std::string buffer{};

  void write(std::string_view bytes) {
    constexpr size_t kAtOnce = size_t{1} << 20;
    buffer += bytes;
    at += bytes.size();
    if (buffer.size() >= kAtOnce) flush();
  }
  void flush() {
    file.write(buffer);
    buffer.clear();
  }
  void write_ids(std::span<const int32_t> ids) {
    if (ids.size() > std::numeric_limits<uint32_t>::max() - block.tokens)
      throw FormatError("write tokens: there are 2^32 or more in " + std::to_string(kPairsOfBlock) +
                        " pairs; are these the right files?");
    if (id_bytes == 2)
      write_ids(std::vector<uint16_t>(ids.begin(), ids.end()));
    else
      write_ids(std::vector<int32_t>(ids.begin(), ids.end()));
  }
  template <class T>
  void write_ids(const std::vector<T>& ids) {
    block.tokens += static_cast<uint32_t>(ids.size());
    block.ids_crc32 = extended({.crc32 = block.ids_crc32}, std::as_bytes(std::span(ids))).crc32;
    write(bytes_of(ids));
  }
  void end_block() {
    write(std::string_view("\0\0\0", up_to_4(at) - at));
    block.ends_crc32 = checksum_of(bytes_of(ends)).crc32;
    write(bytes_of(ends));
    blocks.push_back(block);
    block = {.begin = at};
    ends.clear();
  }
};

TokenWriter::TokenWriter(FileWriter& file, bool text, int64_t pieces)
    : state_(new State{.file = file, .info = {.text = text}, .id_bytes = pieces <= 1 << 16 ? 2 : 4}) {
  file.write(kBegin);
}
TokenWriter::~TokenWriter() = default;

void TokenWriter::write_pair(std::span<const int32_t> source, std::span<const int32_t> target) {
  State& s = *state_;
  for (const std::span<const int32_t> side : {source, target}) {
    s.write_ids(side);
    s.ends.push_back(s.block.tokens);
  }
  s.info.source_tokens += std::ssize(source);
  s.info.target_tokens += std::ssize(target);
  if (++s.info.pairs % kPairsOfBlock == 0) s.end_block();
}

void TokenWriter::write_text(std::span<const int32_t> tokens) {
  State& s = *state_;
  while (!tokens.empty()) {
    const size_t count = std::min(tokens.size(), static_cast<size_t>(kTokensOfBlock - s.block.tokens));
    s.write_ids(tokens.first(count));
    s.info.target_tokens += static_cast<int64_t>(count);
    tokens = tokens.subspan(count);
    if (s.block.tokens == kTokensOfBlock) s.end_block();
  }
}

TokenFileInfo TokenWriter::finish(TokenFileInfo about) {
  State& s = *state_;
  if (s.block.tokens > 0 || !s.ends.empty()) s.end_block();
  about.text = s.info.text;
  about.pairs = s.info.pairs;
  about.source_tokens = s.info.source_tokens;
  about.target_tokens = s.info.target_tokens;
  Trailer trailer{.blocks = s.at};
  const std::string blocks(bytes_of(s.blocks)), info = write_info(about, s.id_bytes);
  s.write(blocks);
  trailer.info = s.at;
  s.write(info);
  trailer.crc32 = checksum_of(blocks + info).crc32;
  kEnd.copy(trailer.end, sizeof trailer.end);
  s.write({reinterpret_cast<const char*>(&trailer), sizeof trailer});
  s.flush();
  return about;
}

// ---------------------------------------------------------------------------------------------- reading

struct TokenFile::State {
  explicit State(const std::string& name);

  std::string path;
  Descriptor fd;
  TokenFileInfo info;
  int64_t id_bytes = 2;
  std::vector<Block> blocks;
  std::string fingerprint;
  std::vector<bool> checked;  // for each block, whether its checksum was verified

  FormatError damaged() const {
    return FormatError(path +
                       ": damaged since it was prepared (a checksum differs); prepare it again, or restore a "
                       "copy");
  }
  int64_t pairs_of(size_t block) const {
    return info.text ? 0 : std::min(kPairsOfBlock, info.pairs - static_cast<int64_t>(block) * kPairsOfBlock);
  }
  uint64_t ends_at(const Block& block) const {
    return block.begin + up_to_4(block.tokens * static_cast<uint64_t>(id_bytes));
  }

  void read_end();
  void check_layout(uint64_t end) const;
  std::vector<uint32_t> ends(size_t block) const;
  void check_ids(size_t block);
  template <class T>
  std::vector<int32_t> ids_as(const Block& block, uint32_t begin, uint32_t end) const {
    std::vector<T> stored(end - begin);
    read_at(fd.get(), block.begin + begin * sizeof(T), room_of(stored), path);
    return {stored.begin(), stored.end()};
  }
  /// Tokens [begin, end) of a block; the range must be valid.
  std::vector<int32_t> ids(size_t block, uint32_t begin, uint32_t end) {
    if (!checked[block]) check_ids(block);
    return id_bytes == 2 ? ids_as<uint16_t>(blocks[block], begin, end) : ids_as<int32_t>(blocks[block], begin, end);
  }
};

TokenFile::State::State(const std::string& name) : path(name), fd(name, O_RDONLY | O_NONBLOCK) {
  if (!fd.ok()) throw_errno("open", path, errno);
  if (!is_token_file(path))
    throw FormatError(path + ": not tokens that heed prepared; heed prepare makes them from sentence pairs or a text");
  read_end();
  checked.resize(blocks.size());
}

void TokenFile::State::read_end() {
  std::string begin(kBegin.size(), '\0');
  const auto size = static_cast<uint64_t>(status_of(fd.get(), path).st_size);
  const FormatError cut(path + ": incomplete: it was cut off or is damaged; prepare it again");
  if (size < kBegin.size() + sizeof(Trailer)) throw cut;
  read_at(fd.get(), 0, std::as_writable_bytes(std::span(begin)), path);
  if (begin != kBegin)
    throw FormatError(path + ": tokens in a format that this heed does not know; prepare it again, or update heed");
  Trailer trailer;
  read_at(fd.get(), size - sizeof trailer, std::as_writable_bytes(std::span(&trailer, 1)), path);
  const uint64_t end = size - sizeof trailer;
  if (std::string_view(trailer.end, sizeof trailer.end) != kEnd || trailer.blocks < kBegin.size() ||
      trailer.info < trailer.blocks || trailer.info > end || (trailer.info - trailer.blocks) % sizeof(Block) != 0)
    throw cut;
  // Only the last block may be shorter, which bounds the length of the list.
  if ((trailer.info - trailer.blocks) / sizeof(Block) > trailer.blocks / kLeastOfBlock + 1 ||
      end - trailer.info > kMostOfInfo)
    throw damaged();
  std::string both(end - trailer.blocks, '\0');
  read_at(fd.get(), trailer.blocks, std::as_writable_bytes(std::span(both)), path);
  if (checksum_of(both).crc32 != trailer.crc32) throw damaged();
  Fingerprint print;
  print.add(std::string_view(both));
  fingerprint = print.text();
  const size_t list = trailer.info - trailer.blocks;
  blocks.resize(list / sizeof(Block));
  both.copy(reinterpret_cast<char*>(blocks.data()), list);
  info = read_info(both.substr(list), path, &id_bytes);
  check_layout(trailer.blocks);
}

// Blocks follow each other without gaps; all except the last are full.
void TokenFile::State::check_layout(uint64_t end) const {
  const FormatError wrong(path + ": its list of blocks is inconsistent; prepare it again");
  const int64_t items = info.text ? info.target_tokens : info.pairs,
                of_block = info.text ? kTokensOfBlock : kPairsOfBlock;
  if (std::ssize(blocks) != items / of_block + (items % of_block != 0)) throw wrong;
  uint64_t at = kBegin.size(), tokens = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    if (block.begin != at) throw wrong;
    if (info.text && block.tokens != std::min<uint64_t>(kTokensOfBlock, static_cast<uint64_t>(items) - tokens))
      throw wrong;
    tokens += block.tokens;
    at = ends_at(block) + 8 * static_cast<uint64_t>(pairs_of(i));
  }
  if (at != end || info.source_tokens > kMost - info.target_tokens ||
      tokens != static_cast<uint64_t>(info.source_tokens + info.target_tokens))
    throw wrong;
}

std::vector<uint32_t> TokenFile::State::ends(size_t block) const {
  std::vector<uint32_t> all(2 * static_cast<size_t>(pairs_of(block)));
  read_at(fd.get(), ends_at(blocks[block]), room_of(all), path);
  if (checksum_of(bytes_of(all)).crc32 != blocks[block].ends_crc32 || !std::is_sorted(all.begin(), all.end()) ||
      all.back() != blocks[block].tokens)
    throw damaged();
  return all;
}

// Reads the block in order, so that later reads come from memory.
void TokenFile::State::check_ids(size_t block) {
  std::vector<std::byte> piece(size_t{1} << 18);
  Checksum sum;
  const uint64_t size = blocks[block].tokens * static_cast<uint64_t>(id_bytes);
  while (sum.bytes < size) {
    const auto part = std::span(piece).first(std::min<uint64_t>(piece.size(), size - sum.bytes));
    read_at(fd.get(), blocks[block].begin + sum.bytes, part, path);
    sum = extended(sum, part);
  }
  if (sum.crc32 != blocks[block].ids_crc32) throw damaged();
  checked[block] = true;
}

namespace {

class PairsOfFile final : public PairCorpus {
 public:
  explicit PairsOfFile(std::shared_ptr<TokenFile::State> file) : file_(std::move(file)) {}
  int64_t size() const override { return file_->info.pairs; }
  std::string fingerprint() const override { return file_->fingerprint; }

  std::vector<Lengths> lengths(int64_t begin, int64_t end) override {
    std::vector<Lengths> all;
    while (begin < end) {
      const auto block = static_cast<size_t>(begin / kPairsOfBlock);
      const std::vector<uint32_t> ends = file_->ends(block);
      const int64_t first = static_cast<int64_t>(block) * kPairsOfBlock;
      for (const int64_t last = std::min(end, first + kPairsOfBlock); begin < last; ++begin) {
        const auto i = static_cast<size_t>(2 * (begin - first));
        all.push_back({ends[i] - (i == 0 ? 0 : ends[i - 1]), ends[i + 1] - ends[i]});
      }
    }
    return all;
  }

  Pair read(int64_t index) override {
    const auto block = static_cast<size_t>(index / kPairsOfBlock);
    const Block& b = file_->blocks[block];
    const int64_t pair = index % kPairsOfBlock;
    std::array<uint32_t, 3> ends{};  // of the previous target, the source, the target
    const size_t none = pair == 0 ? 1 : 0;
    read_at(file_->fd.get(), file_->ends_at(b) + static_cast<uint64_t>(8 * pair) - (none ? 0 : 4),
            std::as_writable_bytes(std::span(ends).subspan(none)), file_->path);
    if (!std::is_sorted(ends.begin(), ends.end()) || ends[2] > b.tokens) throw file_->damaged();
    std::vector<int32_t> both = file_->ids(block, ends[0], ends[2]);
    const auto middle = both.begin() + (ends[1] - ends[0]);
    Pair read{.source = {both.begin(), middle}, .target = {middle, both.end()}};
    return read;
  }

 private:
  std::shared_ptr<TokenFile::State> file_;
};

class TextOfFile final : public TextCorpus {
 public:
  explicit TextOfFile(std::shared_ptr<TokenFile::State> file) : file_(std::move(file)) {}
  int64_t size() const override { return file_->info.target_tokens; }
  std::string fingerprint() const override { return file_->fingerprint; }

  std::vector<int32_t> read(int64_t begin, int64_t end) override {
    std::vector<int32_t> all;
    while (begin < end) {
      const int64_t block = begin / kTokensOfBlock, first = block * kTokensOfBlock,
                    last = std::min(end, first + kTokensOfBlock);
      const std::vector<int32_t> ids = file_->ids(static_cast<size_t>(block), static_cast<uint32_t>(begin - first),
                                                  static_cast<uint32_t>(last - first));
      all.insert(all.end(), ids.begin(), ids.end());
      begin = last;
    }
    return all;
  }

 private:
  std::shared_ptr<TokenFile::State> file_;
};

}  // namespace

TokenFile::TokenFile(const std::string& path) : state_(std::make_shared<State>(path)) {}
const std::string& TokenFile::path() const { return state_->path; }
const TokenFileInfo& TokenFile::info() const { return state_->info; }

std::unique_ptr<PairCorpus> TokenFile::pairs() const {
  if (info().text)
    throw FormatError(path() + ": the tokens of a text, for a language model; sentence pairs are needed");
  return std::make_unique<PairsOfFile>(state_);
}

std::unique_ptr<TextCorpus> TokenFile::text() const {
  if (!info().text) throw FormatError(path() + ": sentence pairs, for a translator; the tokens of a text are needed");
  return std::make_unique<TextOfFile>(state_);
}

}  // namespace heed::inline v0
