// Times the asynchronous reader compared with fio on the same file, with the same block size, depth
// and number of threads, both past the page cache.
//
//   reader_bench [--file F] [--gigabytes G] [--threads T] [--batches K] [--block B] [--depth D]
//                [--alignment A] [--batch N] [--rounds R] [--quiet]
//
// The file holds Criteo-shaped raw samples (160 bytes); one of G GB is written to F and removed
// afterwards when F is not there. Each round reads the whole file once in each way, in an order
// that rotates:
//   fio      fio's libaio engine (where fio is installed), the better of two: T jobs of depth D
//            that read a T-th of the file each, and one job of depth T D
//   bytes    the reader's own reads, T threads, nothing decoded
//   batches  AsyncReader: decoded batches of N samples, delivered in order to one thread, once the
//            ring is full
// and then one thread decodes a batch that is in memory, over and over.
// Prints a table on standard error and one JSON object on standard output; rates are the medians
// and the best of the rounds.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "data_reader/async_reader.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/core/thread_pool.h"

namespace hlite {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr int64_t kSlots = 26, kDense = 13, kRows = 100'000;
constexpr int64_t kRecord = 4 * (1 + kDense + kSlots);

// Random samples, the same block of them over and over.
void write_samples(const std::string& path, int64_t bytes) {
  constexpr int64_t kSamples = 100'000;
  std::vector<uint32_t> words;
  words.reserve(kSamples * kRecord / 4);
  for (uint64_t i = 0; i < kSamples; ++i) {
    words.push_back(random::word(1, 0, i) & 1);
    for (uint64_t d = 0; d < kDense; ++d) words.push_back(random::word(1, 1 + d, i) % 1000);
    for (uint64_t s = 0; s < kSlots; ++s)
      words.push_back(static_cast<uint32_t>(random::word(1, 100 + s, i) % kRows));
  }
  WriteFile file(path);
  for (int64_t left = bytes / kRecord; left > 0; left -= kSamples)
    file.write(std::as_bytes(std::span(words))
                   .first(static_cast<size_t>(std::min(left, kSamples) * kRecord)));
  file.close();
}

struct Setup {
  std::string file;
  config::AsyncParamConfig io;
  int64_t batch = 16'384;

  [[nodiscard]] config::DataConfig data() const {
    config::DataConfig c;
    c.format = &config::data_format("RawAsync");
    c.label_dim = 1;
    c.dense_dim = kDense;
    config::SparseInputConfig sparse;
    sparse.is_fixed_length = true;
    sparse.slot_num = kSlots;
    sparse.hotness.assign(kSlots, 1);
    c.sparse.push_back(sparse);
    c.async_param = io;
    return c;
  }
};

// Bytes per second; 0 where fio is not installed.
double fio_rate(const Setup& s, int64_t jobs, int64_t depth) {
  const auto size = static_cast<int64_t>(std::filesystem::file_size(s.file));
  const int64_t part = size / jobs / s.io.io_block_size * s.io.io_block_size;
  const std::string command = fmt::format(
      "fio --name=r --readonly --rw=read --ioengine=libaio --direct=1 --thread --group_reporting "
      "--filename='{}' --numjobs={} --bs={} --iodepth={} --size={} --offset_increment={} "
      "--output-format=json 2>/dev/null",
      s.file, jobs, s.io.io_block_size, depth, part, part);
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return 0;
  std::string text;
  char buffer[4096];
  while (const size_t n = fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  if (pclose(pipe) != 0) return 0;
  return nlohmann::json::parse(text)["jobs"][0]["read"]["bw_bytes"].get<double>();
}

// T threads that read every T-th piece of about a batch's size and do nothing with it.
double bytes_rate(const Setup& s) {
  const auto size = static_cast<int64_t>(std::filesystem::file_size(s.file));
  const data::ReadShape shape{s.io.io_block_size, s.io.io_depth, s.io.io_alignment};
  const int64_t piece = s.batch * kRecord, pieces = (size + piece - 1) / piece;
  const auto start = Clock::now();
  const auto read = [&](int64_t thread) {
    const int64_t ranges = 2 + (shape.depth * shape.block + piece - 1) / piece;
    data::RangeReader reader(s.file, open_io_queue(s.file, {shape.depth, shape.alignment}), size,
                             shape, ranges, piece);
    int64_t started = thread, done = thread;
    for (int64_t turn = 0; done < pieces; done += s.io.num_threads, ++turn) {
      while (started < pieces && (started - done) / s.io.num_threads < ranges) {
        reader.start(started / s.io.num_threads % ranges, started * piece,
                     std::min(piece, size - started * piece));
        started += s.io.num_threads;
      }
      while (!reader.finished(turn % ranges)) reader.poll(IoQueue::kForever);
      static_cast<void>(reader.bytes(turn % ranges));
      reader.release(turn % ranges);
    }
  };
  std::vector<std::jthread> threads;
  for (int64_t t = 0; t < s.io.num_threads; ++t) threads.emplace_back(read, t);
  threads.clear();
  return static_cast<double>(size) / since(start);
}

struct BatchRate {
  double bytes = 0, decode_share = 0;  // per second; of the threads' time
};
BatchRate batches_rate(const Setup& s) {
  const std::vector<int64_t> rows(kSlots, kRows);
  data::AsyncReader reader(s.data(), s.file, data::Split::kTrain, s.batch, rows);
  // Memory is touched for the first time while the ring fills; the ring is as full at the end.
  for (size_t slot = reader.memory().size(); slot-- > 0;) reader.next();
  const double decoded = reader.decode_seconds();
  const auto start = Clock::now();
  for (int64_t b = reader.batches_per_epoch(); b-- > 0;) reader.next();
  const double seconds = since(start);
  return {
      static_cast<double>(reader.samples() * kRecord) / seconds,
      (reader.decode_seconds() - decoded) / seconds / static_cast<double>(reader.plan().threads)};
}

// One thread.
double decode_rate(const Setup& s) {
  const data::RawFormat format = data::RawFormat::from(s.data());
  data::RawDecoder decoder(s.file, format, std::vector<int64_t>(kSlots, kRows));
  const int64_t n = std::min<int64_t>(
      s.batch, static_cast<int64_t>(std::filesystem::file_size(s.file)) / kRecord);
  std::vector<std::byte> records(static_cast<size_t>(n * kRecord));
  ReadFile(s.file).read(0, records);
  data::BatchBuffer batch(n, 1, kDense, kSlots);
  const auto start = Clock::now();
  int64_t bytes = 0;
  while (since(start) < 0.3) {
    decoder.decode(records, 0, n, batch.batch(), 0);
    bytes += n * kRecord;
  }
  return static_cast<double>(bytes) / since(start);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(int argc, char** argv) {
  Setup s;
  s.file = "reader_bench.bin";
  s.io.num_threads = 2;
  s.io.num_batches_per_thread = 4;
  s.io.io_block_size = 512 << 10;
  s.io.io_depth = 16;
  s.io.io_alignment = 4096;
  double gigabytes = 2;
  int rounds = 5;
  bool quiet = false;
  CLI::App app("Times the asynchronous reader compared with fio.", "reader_bench");
  app.add_option("--file", s.file);
  app.add_option("--gigabytes", gigabytes);
  app.add_option("--threads", s.io.num_threads)->check(CLI::Range(1, 1024));
  app.add_option("--batches", s.io.num_batches_per_thread)->check(CLI::Range(1, 65536));
  app.add_option("--block", s.io.io_block_size);
  app.add_option("--depth", s.io.io_depth);
  app.add_option("--alignment", s.io.io_alignment);
  app.add_option("--batch", s.batch);
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 1000));
  app.add_flag("--quiet", quiet, "No table, only the JSON line");
  CLI11_PARSE(app, argc, argv);

  const bool ours = !std::filesystem::exists(s.file);
  if (ours) write_samples(s.file, static_cast<int64_t>(gigabytes * 1e9));
  const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(s.file));
  std::vector<double> fio, bytes, batches, decode, share, ratio_bytes, ratio_batches;
  for (int r = 0; r < rounds; ++r) {
    double two_fios[2];
    for (int k = 0; k < 4; ++k) switch ((r + k) % 4) {
        case 0:
          two_fios[0] = fio_rate(s, s.io.num_threads, s.io.io_depth);
          break;
        case 1:
          bytes.push_back(bytes_rate(s));
          break;
        case 2:
          two_fios[1] = fio_rate(s, 1, s.io.num_threads * s.io.io_depth);
          break;
        default: {
          const BatchRate b = batches_rate(s);
          batches.push_back(b.bytes);
          share.push_back(b.decode_share);
        }
      }
    fio.push_back(std::max(two_fios[0], two_fios[1]));
    decode.push_back(decode_rate(s));
    if (fio.back() > 0) {
      ratio_bytes.push_back(bytes.back() / fio.back());
      ratio_batches.push_back(batches.back() / fio.back());
    }
    if (!quiet)
      fmt::print(stderr, "round {}: fio {:.0f}, bytes {:.0f}, batches {:.0f} MB/s\n", r + 1,
                 fio.back() / 1e6, bytes.back() / 1e6, batches.back() / 1e6);
  }
  if (ours) std::filesystem::remove(s.file);

  const auto best = [](const std::vector<double>& v) {
    return *std::max_element(v.begin(), v.end());
  };
  const bool has_fio = !ratio_bytes.empty();
  const auto line = [&](const char* name, const std::vector<double>& v,
                        const std::vector<double>& ratio) {
    fmt::print(stderr, "{:24}{:10.0f}{:10.0f}{:>12}{:>12}\n", name, median(v) / 1e6, best(v) / 1e6,
               ratio.empty() ? "" : fmt::format("{:.2f}", median(ratio)),
               ratio.empty() ? "" : fmt::format("{:.2f}", best(v) / best(fio)));
  };
  if (!quiet) {
    fmt::print(stderr,
               "{} bytes, {} threads x {} batches of {}, blocks of {}, depth {}\n{:24}{:>10}{:>10}"
               "{:>12}{:>12}\n",
               file_bytes, s.io.num_threads, s.io.num_batches_per_thread, s.batch,
               s.io.io_block_size, s.io.io_depth, "MB/s", "median", "best", "of fio",
               "of best fio");
    if (has_fio) line("fio", fio, {});
    line("bytes", bytes, ratio_bytes);
    line("batches", batches, ratio_batches);
    line("decoding, one thread", decode, {});
    fmt::print(stderr, "share of the threads' time that is decoding: {:.0f} %\n",
               100 * median(share));
  }
  fmt::print(
      R"({{"bytes":{},"threads":{},"batches_per_thread":{},"batch":{},"block":{},"depth":{},"fio":[{:.0f}],"read":[{:.0f}],"batches":[{:.0f}],"decode_one_thread":[{:.0f}]}})"
      "\n",
      file_bytes, s.io.num_threads, s.io.num_batches_per_thread, s.batch, s.io.io_block_size,
      s.io.io_depth, fmt::join(fio, ","), fmt::join(bytes, ","), fmt::join(batches, ","),
      fmt::join(decode, ","));
  return 0;
}

}  // namespace
}  // namespace hlite

int main(int argc, char** argv) {
  try {
    return hlite::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "reader_bench: {}\n", e.what());
    return 1;
  }
}
