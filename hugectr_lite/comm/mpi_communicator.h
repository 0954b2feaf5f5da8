// Ranks as processes under mpirun. Compiled into libhlite_mpi, which programs load when they find
// themselves under mpirun (mpi_plugin.h): nothing else includes <mpi.h> or links MPI.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "hugectr_lite/comm/communicator.h"

namespace hlite::comm {

class MpiCommunicator final : public Communicator {
 public:
  // Takes over `communicator` and frees it; the world's destructor also ends MPI.
  MpiCommunicator(MPI_Comm communicator, bool world);
  ~MpiCommunicator() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void barrier() override;
  void visit(std::span<const ConstBytes> send, std::span<const size_t> most,
             Consume consume) override;
  std::unique_ptr<Communicator> split(int colour) override;
  // Prints the reason and ends all processes with exit code 4 (kExitDevice). Does not return.
  void abort(const std::string& reason) noexcept override;

 private:
  MPI_Comm communicator_;
  bool world_;
  int rank_ = 0, size_ = 1;
  std::vector<std::byte> scratch_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace hlite::comm
