// Key tables of the files beside config.json. Each table is defined in the source that reads the file.
#pragma once

#include "pretrained/keys.h"

namespace heed::inline v0 {

KeyTable rope_keys();                      // rope_parameters and rope_scaling of config.json
KeyTable image_processor_keys(bool deit);  // preprocessor_config.json
// sentence-transformers: a module in modules.json, sentence_bert_config.json, config_sentence_transformers.json, and
// config.json of Pooling, Dense and Normalize.
KeyTable module_keys();
KeyTable sentence_transformer_keys();
KeyTable prompt_keys();
KeyTable pooling_keys();
KeyTable dense_keys();
KeyTable normalize_keys();
KeyTable adapter_keys();  // adapter_config.json

}  // namespace heed::inline v0
