// The functions of the Python package for prepared data: first configs, csv_prep, vocabularies.
#pragma once

#include <pybind11/pybind11.h>

namespace hlite::python {

// Adds first_config, first_config_of_sizes, first_config_models, csv_prep, categories,
// csv_inputs and write_table.
void define_prepared_data(pybind11::module_& module);

}  // namespace hlite::python
