// Checks, by the manifests next to the files, that the data sets of a run belong together and to
// the model that it starts from.
#pragma once

#include <string>
#include <vector>

#include "data_reader/data_identity.h"
#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/trainer/run/options.h"

namespace hlite::trainer {

// Compares the files of the config with their manifests, and the evaluation and test sets with the
// training set. Slots that share a table need one vocabulary. If slots of one vocabulary have
// separate tables, logs the slot_tables with which they would share one. Returns what identifies
// the training data. Throws DataError, naming both sides; warns of a split in the place of another,
// and of a file that its folder's manifest does not name.
data::TrainedOn check_training_data(const config::TrainConfig& config, const Options& options);

// The data that the model is trained on from now on. `new_data`: with --grow they are other data
// than the checkpoint's and are read from their start.
struct ModelData {
  data::TrainedOn on;
  bool new_data = false;
};

// Compares `data`, the training data's, with that of the model in --resume or --init, if there is
// one. `follows`: the data are a folder whose files are not known yet. Throws DataError.
ModelData check_model_data(data::TrainedOn data, const Options& options, bool follows = false);

// Compares a file of a folder that is followed with its manifest and with the data that the model
// has been trained on so far. Returns the data that it is trained on from then on.
data::TrainedOn check_followed_file(const std::string& path, data::TrainedOn before,
                                    const Options& options);

// The files that `predict` needs to prepare text as the training data was (--with-preparation), for
// a checkpoint. Throws ConfigError where there are none.
std::vector<checkpoint::CopiedFile> preparation_of(const config::TrainConfig& config);

}  // namespace hlite::trainer
