// All of heed that is installed here. Programs that care for compile time include the header they need.
#pragma once

#include "heed/attention.h"
#include "heed/communicator.h"
#include "heed/error.h"
#include "heed/executor.h"
#include "heed/kinds.h"
#include "heed/kv_cache.h"
#include "heed/rotary.h"
#include "heed/score_mod.h"
#include "heed/tensor.h"
#include "heed/tree_sum.h"

#if __has_include("heed/nn.h")
#include "heed/autograd.h"
#include "heed/event_file.h"
#include "heed/functional.h"
#include "heed/image_encoder.h"
#include "heed/io.h"
#include "heed/labelled.h"
#include "heed/lora.h"
#include "heed/models.h"
#include "heed/nn.h"
#include "heed/optim.h"
#include "heed/pretrained.h"
#include "heed/profile.h"
#include "heed/random.h"
#include "heed/speech_transformer.h"
#include "heed/task.h"
#include "heed/text_encoder.h"
#include "heed/train.h"
#endif

#if __has_include("heed/text.h")
#include "heed/text.h"
#include "heed/tokenizer.h"
#endif

#if __has_include("heed/load.h")
#include "heed/adapters.h"
#include "heed/attended.h"
#include "heed/chat.h"
#include "heed/corpus.h"
#include "heed/load.h"
#include "heed/paths.h"
#include "heed/picture_reader.h"
#include "heed/text_generator.h"
#include "heed/text_reader.h"
#include "heed/token_file.h"
#include "heed/translator.h"
#endif

#if __has_include("heed/pages.h")
#include "heed/head_changes.h"
#include "heed/pages.h"
#include "heed/weights_file.h"
#endif

#if __has_include("heed/mpi.h")
#include "heed/attention_over_ranks.h"
#include "heed/mpi.h"
#include "heed/split.h"
#endif

#if __has_include("heed/recipe.h")
#include "heed/recipe.h"
#endif

#if __has_include("heed/http_server.h")
#include "heed/http_server.h"
#endif

#if __has_include("heed/served_model.h")
#include "heed/served_model.h"
#endif

#if __has_include("heed/view.h")
#include "heed/label.h"
#include "heed/view.h"
#endif
