#include "hugectr_lite/trainer/run/vocabulary_keeper.h"

#include <vector>

namespace hlite::trainer {

void VocabularyKeeper::evict_after_iteration() {
  evict([this](const embedding::Eviction& of) {
    return of.interval > 0 && run_.iteration % of.interval == 0;
  });
}

void VocabularyKeeper::evict_for_checkpoint() {
  if (evicted_ != run_.iteration)
    evict([](const embedding::Eviction& of) { return of.interval == 0; });
  evicted_ = run_.iteration;
}

// `due`: of the layers whose rows leave now. Shows what has become of their vocabularies.
void VocabularyKeeper::evict(const std::function<bool(const embedding::Eviction&)>& due) {
  std::vector<embedding::EmbeddingLayer*> layers;
  for (const auto& layer : run_.model->layers().embeddings)
    if (const auto* const rules = layer->tables().vocabulary_rules(); rules && due(rules->eviction))
      layers.push_back(layer.get());
  if (layers.empty()) return;
  VocabularyEvent event{.iter = run_.iteration};
  run_.model->between_runs([&] {
    counts_.leave_out([&] {
      for (embedding::EmbeddingLayer* const layer : layers) {
        embedding::EmbeddingTables& tables = layer->tables();
        const int64_t interval = tables.vocabulary_rules()->eviction.interval;
        tables.evict(run_.iteration, interval > 0 ? run_.iteration - interval : evicted_);
        event.layers.push_back({layer->name(), tables.vocabulary()});
      }
    });
  });
  run_.records.notify(&RunRecord::vocabulary, event);
  for (const std::string& line : vocabulary_texts(event)) run_.progress.line(line);
}

std::optional<VocabularyEvent> VocabularyKeeper::vocabulary() {
  run_.model->synchronize();
  VocabularyEvent event{.iter = run_.iteration};
  for (const auto& layer : run_.model->layers().embeddings)
    if (layer->tables().vocabulary_rules())
      event.layers.push_back({layer->name(), layer->tables().vocabulary()});
  return event.layers.empty() ? std::nullopt : std::optional(event);
}

}  // namespace hlite::trainer
