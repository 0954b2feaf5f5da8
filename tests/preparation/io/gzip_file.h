// Writes text as a gzip file.
#pragma once

#include <zlib.h>

#include <stdexcept>
#include <string>

namespace hlite::test {

inline void write_gzip(const std::string& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  const bool written =
      file != nullptr && gzwrite(file, text.data(), static_cast<unsigned>(text.size())) ==
                             static_cast<int>(text.size());
  if (file == nullptr || gzclose(file) != Z_OK || !written) {
    throw std::runtime_error("cannot write " + path);
  }
}

// A member whose header has all fields that there are, and a checksum of its own.
inline std::string gzip_member_with_fields(std::string text) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;
  if (deflateInit2(&stream, 6, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string name = "rows.tsv", comment = "of a day", extra = "BC\2\0ab";
  gz_header header{};
  header.name = reinterpret_cast<Bytef*>(name.data());
  header.comment = reinterpret_cast<Bytef*>(comment.data());
  header.extra = reinterpret_cast<Bytef*>(extra.data());
  header.extra_len = 6;
  header.hcrc = 1;
  deflateSetHeader(&stream, &header);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("deflate");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace hlite::test
