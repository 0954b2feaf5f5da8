// HostRequests: the rows that a batch's ranks request of this one, as the hosts of GPUs find them
// before the batch runs.
//
// A host makes the request lists of its rank's samples and sends each one to the host of its owner,
// as RowExchange does on the GPUs a little later. The two have the same lists, number by number, so
// what the host knows of place i of a list belongs to place i on its GPU. A batch ahead: hosts wait
// for each other in begin_run(), where they ask whether all of them know the next batch, and not for
// GPUs.
//
// Lists that do not fit the exchange are empty here as there: then the run does not count and is
// repeated with larger ones.
#pragma once

#include <array>
#include <memory>

#include "embedding/device_placement.h"
#include "embedding/host_rows.h"
#include "embedding/row_exchange.h"
#include "hugectr_lite/comm/communicator.h"

namespace hlite::embedding {

class Cutter;

class HostRequests final : public HostRows {
 public:
  // Collective when place.ranks.world is given. `exchange`: the GPUs'. All but `place` must outlive
  // it.
  HostRequests(const TablesSpec& spec, const TableStorage& storage, HashedIndex* index,
               const RowExchange& exchange, const TablesPlace& place);

  [[nodiscard]] int64_t bytes() const override;
  void prepare() override;
  using HostRows::shape;
  [[nodiscard]] Shape shape(int64_t batch) const override;
  // Collective. Throws CommError if another rank has failed.
  void begin_run(const Exec& host, const plan::HostInput& input, int64_t batch) override;
  int64_t find(const Exec& host, Batch of, uint32_t* rows, bool training) override;
  [[nodiscard]] std::vector<comm::StepTraffic> traffic() const override;

 private:
  struct Arrays {
    std::array<RequestedRows, 2> requested;  // in the order of Batch
    uint32_t *entries, *received;
    RequestLists lists;
    int64_t* received_bytes;
    PeerCounts* counts;  // not used
    std::byte* routing;
  };
  [[nodiscard]] ExchangeShape largest() const;
  [[nodiscard]] size_t routing_bytes() const;
  Arrays cut(Cutter& cutter) const;
  void agree(const Exec& host);
  void exchange_lists(const Exec& host, Batch of);

  const TablesSpec& spec_;
  const TableStorage& storage_;
  const RowExchange& exchange_;
  const TablesPlace place_;
  const std::unique_ptr<comm::Communicator> hosts_;
  std::unique_ptr<DevicePlacement> placement_;
  HostMemory memory_;
  Arrays arrays_ = {};
  int64_t capacity_ = 0;  // of the lists that are here
};

}  // namespace hlite::embedding
