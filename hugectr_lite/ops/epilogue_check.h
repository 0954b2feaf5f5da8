// Checks that a product with an epilogue is the plain product and the epilogue, rounded once.
// On the host, in double, on samples that were copied there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hlite::ops {

// The exactness that results can have, relative to their largest.
struct ProductRounding {
  double unit =
      0;  // half the distance of neighbours in the result's type, below the next power of 2
  double smallest = 0;  // its smallest positive number
  double factor = 0;    // what factors are rounded by on their way in (TF32: 2^-11), else 0
  int64_t k = 1;        // terms of each sum
  int64_t batch = 1;    // terms of a bias gradient's sum: columns of the whole product
};

// Some columns of a plain product [rows, columns] in float, a column after the other, and what its
// epilogue makes of them. Bit r % 8 of byte r / 8 of a column's mask, mask_stride bytes each, is
// row r's.
struct EpilogueSample {
  int64_t rows = 0, columns = 0, mask_stride = 0;
  std::vector<float> product;
  std::vector<float> bias;    // [rows], added first; or empty
  bool relu = false;          // then what is positive stays
  std::vector<uint8_t> gate;  // or, where not empty, what its bits let pass
  std::vector<float> sums;    // [rows]: sums over the whole batch, which a kernel made; or empty
  std::vector<float> terms;   // some columns [rows] of what is summed; empty: of the results
};

// The same columns of the product with epilogue.
struct FusedSample {
  std::vector<float> values;
  std::vector<uint8_t> mask;  // that it wrote; or empty
  std::vector<float> sums;    // as above; or empty
};

// Returns true if the sample can reveal a wrong epilogue: it has a finite number other than 0.
bool is_conclusive(const EpilogueSample& sample);

// Empty where all agree, else the first number that does not, with what was expected and how far
// off it may be:
//
//   values  2.25 unit |value| + (k 2^-23 + 8 factor) (largest |product| + largest |bias|), smallest
//           at least: a sum of products that is rounded to 16 bits before the bias is added, as by
//           cuBLASLt's products that are cut along k, is farther off where the two cancel
//   masks   any bit, where product + bias is no farther from 0 than that
//   sums    8 (unit + factor) sqrt(batch) r, r a row's largest root mean square (of results or
//           terms), and (4 unit + batch 2^-24) of the largest sum
//
// Where the product is not finite nothing is compared.
std::string difference(const EpilogueSample& expected, const FusedSample& got,
                       const ProductRounding& rounding);

}  // namespace hlite::ops
