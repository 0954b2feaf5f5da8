#include "hugectr_lite/trainer/run/rank_tensors.h"

#include <span>

namespace hlite::trainer {
namespace {

// Rank 0's next request: elements [first, first + count) of a tensor.
struct TensorRequest {
  int64_t list = -1, tensor = 0, first = 0, count = 0;  // list -1: nothing more
};

void send_or_receive(const Exec& exec, const comm::RankContext& ranks, TensorRequest& wanted) {
  ranks.world->broadcast(exec, std::as_writable_bytes(std::span(&wanted, 1)), 0);
}

}  // namespace

void write_collected(const Exec& exec, const comm::RankContext& ranks, const RankLists& lists,
                     const std::function<void(const RankLists&)>& write) {
  if (ranks.ranks() == 1) return write(lists);
  TensorRequest wanted;
  if (ranks.rank == 0) {
    auto announced = lists;
    for (size_t l = 0; l < lists.size(); ++l)
      for (size_t t = 0; t < lists[l].size(); ++t) {
        if (lists[l][t].data) continue;
        announced[l][t].get = [&, l, t](int64_t first, std::span<float> out) {
          TensorRequest piece{static_cast<int64_t>(l), static_cast<int64_t>(t), first,
                              std::ssize(out)};
          send_or_receive(exec, ranks, piece);
          lists[l][t].get(first, out);
        };
      }
    write(announced);
    return send_or_receive(exec, ranks, wanted);
  }
  std::vector<float> nothing;
  for (send_or_receive(exec, ranks, wanted); wanted.list >= 0;
       send_or_receive(exec, ranks, wanted)) {
    nothing.resize(static_cast<size_t>(wanted.count));
    lists[static_cast<size_t>(wanted.list)][static_cast<size_t>(wanted.tensor)].get(wanted.first,
                                                                                    nothing);
  }
}

RankLists joined_lists(const std::vector<const RankLists*>& ranks) {
  RankLists joined = *ranks[0];
  for (size_t l = 0; l < joined.size(); ++l)
    for (size_t t = 0; t < joined[l].size(); ++t) {
      if (!joined[l][t].part) continue;
      joined[l][t].get = [&ranks, l, t](int64_t first, std::span<float> out) {
        std::vector<float> parts;
        for (const RankLists* const rank : ranks) {
          const std::vector<float> part = (*rank)[l][t].part(first, std::ssize(out));
          parts.insert(parts.end(), part.begin(), part.end());
        }
        (*ranks[0])[l][t].join(first, parts, out);
      };
    }
  return joined;
}

}  // namespace hlite::trainer
