// pickle and copy: a module is its class, what its __init__ takes, and its values.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <map>
#include <string>

#include "arrays.h"
#include "heed/image_encoder.h"
#include "heed/lora.h"
#include "heed/random.h"
#include "heed/speech_transformer.h"
#include "heed/text_encoder.h"
#include "nn.h"

namespace heed::python {
namespace {

using namespace nb::literals;

/// The class of C++ that a module is of, and the arguments that make one like it.
struct Recipe {
  nb::object type;
  nb::dict arguments;
};

nb::dict dict(std::initializer_list<std::pair<const char*, nb::object>> items) {
  nb::dict all;
  for (const auto& [name, value] : items) all[name] = value;
  return all;
}

template <class T>
nb::object object(T value) {
  return nb::cast(value);
}

std::string name_of(FeedForwardKind kind) {
  for (const NamedFeedForwardKind& one : kFeedForwardKinds)
    if (one.kind.activation == kind.activation && one.kind.gated == kind.gated) return one.name;
  throw ShapeError("pickle: a feed-forward of a kind without a name");
}

std::string name_of(NormKind kind) { return kind == NormKind::layer_norm ? "layer_norm" : "rms_norm"; }

nb::dict arguments_of(const Linear& l) {
  return dict({{"in_features", object(l.weight.size(1))},
               {"out_features", object(l.weight.size(0))},
               {"bias", object(l.bias.defined())}});
}
nb::dict arguments_of(const Embedding& e) {
  return dict({{"num_embeddings", object(e.weight.size(0))}, {"embedding_dim", object(e.weight.size(1))}});
}
nb::dict arguments_of(const LayerNorm& n) {
  return dict(
      {{"width", object(n.weight.size(0))}, {"epsilon", object(n.epsilon())}, {"bias", object(n.bias.defined())}});
}
nb::dict arguments_of(const RMSNorm& n) {
  return dict({{"width", object(n.weight.size(0))}, {"epsilon", object(n.epsilon())}});
}
nb::dict arguments_of(const Norm& n) {
  nb::dict arguments = n.layer_norm() ? arguments_of(*n.layer_norm()) : arguments_of(*n.rms_norm());
  arguments["norm"] = name_of(n.layer_norm() ? NormKind::layer_norm : NormKind::rms_norm);
  return arguments;
}
nb::dict arguments_of(const FeedForward& f) {
  return dict({{"width", object(f.linear2.weight.size(0))},
               {"hidden", object(f.linear2.weight.size(1))},
               {"activation", object(name_of(f.kind()))},
               {"dropout", object(f.dropout())},
               {"bias", object(f.linear2.bias.defined())}});
}
nb::dict arguments_of(const MultiheadAttention& a) {
  const MultiheadAttentionOptions& o = a.options();
  return dict({{"embed_dim", object(o.embed_dim)},
               {"num_heads", object(o.num_heads)},
               {"dropout", object(o.dropout)},
               {"kv_heads", object(o.kv_heads)},
               {"head_dim", object(o.head_dim)},
               {"bias", object(o.bias)},
               {"out_bias", object(o.out_bias)},
               {"kdim", object(o.kdim)},
               {"vdim", object(o.vdim)},
               {"scale", object(o.scale)},
               {"rotary", object(o.rotary)}});
}
nb::dict arguments_of(const TransformerLayerOptions& o) {
  return dict({{"d_model", object(o.d_model)},
               {"nhead", object(o.nhead)},
               {"kv_heads", object(o.kv_heads)},
               {"dim_feedforward", object(o.dim_feedforward)},
               {"dropout", object(o.dropout)},
               {"attention_dropout", object(o.attention_dropout)},
               {"activation_dropout", object(o.activation_dropout)},
               {"activation", object(name_of(o.activation))},
               {"norm", object(name_of(o.norm))},
               {"norm_epsilon", object(o.norm_epsilon)},
               {"norm_first", object(o.norm_first)},
               {"bias", object(o.bias)},
               {"norm_bias", object(o.norm_bias)},
               {"rotary", object(o.rotary)}});
}
nb::dict arguments_of(const TransformerEncoderLayer& l) { return arguments_of(l.options()); }
nb::dict arguments_of(const TransformerDecoderLayer& l) { return arguments_of(l.options()); }
template <class Stack>
nb::dict arguments_of_stack(const Stack& s) {
  nb::dict arguments = arguments_of(s.layers.at(0)->options());
  arguments["num_layers"] = std::ssize(s.layers);
  arguments["final_norm"] = s.norm != nullptr;
  return arguments;
}
nb::dict arguments_of(const TransformerEncoder& e) { return arguments_of_stack(e); }
nb::dict arguments_of(const TransformerDecoder& d) { return arguments_of_stack(d); }
nb::dict arguments_of(const Transformer& t) { return config_of(t.config()); }
nb::dict arguments_of(const LanguageModel& l) { return config_of(l.config()); }

template <class... Types>
Recipe recipe_among(const Module& module) {
  Recipe recipe{nb::borrow(nb::type<Module>()), {}};
  const auto is = [&]<class T>(const T* found) {
    if (found) recipe = {nb::borrow(nb::type<T>()), arguments_of(*found)};
    return found != nullptr;
  };
  static_cast<void>((is(dynamic_cast<const Types*>(&module)) || ...));
  return recipe;
}

template <class Model>
bool has_details(const Module& module) {
  const auto* const model = dynamic_cast<const Model*>(&module);
  return model && model->details();
}

template <class... Types>
bool is_among(const Module& module) {
  return (dynamic_cast<const Types*>(&module) || ...);
}

/// Modules that the arguments of no __init__ describe.
void refuse_loaded(const Module& module) {
  if (is_among<TextEncoder, ImageEncoder, SpeechTransformer, LowRankAdapters>(module) ||
      has_details<Transformer>(module) || has_details<LanguageModel>(module))
    throw nb::type_error(
        "pickle: the module is of another maker's model, which stays in its directory; pass the path and heed.load() "
        "it there, or pickle state_dict()");
}

Recipe recipe_of(const Module& module) {
  refuse_loaded(module);
  return recipe_among<Linear, Embedding, LayerNorm, RMSNorm, Norm, FeedForward, MultiheadAttention,
                      TransformerEncoderLayer, TransformerDecoderLayer, TransformerEncoder, TransformerDecoder,
                      Transformer, LanguageModel>(module);
}

}  // namespace

nb::tuple reduce_module(nb::handle self) {
  const Module& module = module_of(self);
  const Recipe recipe = recipe_of(module);
  nb::dict values;
  for (const auto& [name, parameter] : module.named_parameters())
    values[name.c_str()] = as_numpy(parameter.value().clone(), Access::write);
  return nb::make_tuple(nb::module_::import_("heed.nn").attr("_module_of"),
                        nb::make_tuple(self.type(), recipe.type, recipe.arguments, values, module.training()),
                        nb::getattr(self, "__dict__", nb::none()));
}

void restore_module(nb::handle self, nb::handle type, nb::dict arguments, nb::dict values, bool training) {
  {
    const NoInit values_follow;
    type.attr("__init__")(self, **arguments);
  }
  Module& module = module_of(self);
  std::map<std::string, Tensor> given;
  for (auto& [name, value] : tensors_of("pickle", std::move(values))) given[name] = value;
  for (auto& [name, parameter] : module.named_parameters()) {
    if (!given.contains(name)) throw FormatError("pickle: tensor '" + name + "' is missing");
    parameter.rebind(given[name].clone(), Tensor());
  }
  module.train(training);
}

nb::tuple reduce_variable(nb::handle self) {
  const auto& variable = nb::cast<const Variable&>(self);
  if (!variable.is_leaf()) throw ShapeError("pickle: a Variable's history cannot be kept; pickle numpy() of it");
  return nb::make_tuple(self.type(),
                        nb::make_tuple(as_numpy(variable.value().clone(), Access::write), variable.requires_grad()));
}

}  // namespace heed::python
