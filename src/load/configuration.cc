// config.json: heed's own configurations, and the kinds of models that there are.
#include "load/configuration.h"

#include <deque>
#include <mutex>
#include <utility>

#include "heed/config_fields.h"
#include "heed/random.h"

namespace heed::inline v0 {
namespace {

constexpr const char* kArchitecture = "architecture";
constexpr const char* kArchitectures[] = {"transformer", "language_model"};  // in the order of ModelConfig

class FieldWriter {
 public:
  explicit FieldWriter(ConfigWriter& to) : to_(to) {}
  template <class T>
  void integer(const Field& field, T value, int64_t, int64_t) const {
    to_.set(field.name, value);
  }
  void optional(const Field& field, int64_t value, int64_t) const {
    if (value > 0) to_.set(field.name, value);
  }
  void probability(const Field& field, double value) const { to_.set(field.name, value); }
  void choice(const Field& field, const std::string& value, const std::vector<std::string>&) const {
    to_.set(field.name, value);
  }
  void flag(const Field& field, bool value) const { to_.set(field.name, value); }

 private:
  ConfigWriter& to_;
};

class FieldReader {
 public:
  explicit FieldReader(ConfigReader& from) : from_(from) {}
  template <class T>
  void integer(const Field& field, T& value, int64_t low, int64_t high) const {
    value = static_cast<T>(from_.integer(field.name, low, high));
  }
  void optional(const Field& field, int64_t& value, int64_t high) const {
    value = from_.integer(field.name, 1, high, 0);
  }
  void probability(const Field& field, double& value) const { value = from_.number(field.name, 0, 1); }
  void choice(const Field& field, std::string& value, const std::vector<std::string>& names) const {
    value = from_.one_of(field.name, names);
  }
  void flag(const Field& field, bool& value) const { value = from_.boolean(field.name); }

 private:
  ConfigReader& from_;
};

// All but "architecture".
template <class Config>
Config read_fields(ConfigReader& from) {
  Config c;
  visit_fields(c, FieldReader(from));
  return c;
}

int64_t source_pieces(const TransformerConfig& c) { return c.source_vocab_size; }
int64_t source_pieces(const LanguageModelConfig&) { return 0; }

bool has_details(const Transformer& model) { return model.details().has_value(); }
bool has_details(const LanguageModel& model) { return model.details().has_value(); }

template <class Model, class Config>
Architecture own(const char* name) {
  return {.name = name,
          .plan =
              [](ConfigReader& from) {
                const auto c = read_fields<Config>(from);
                validate(c);
                ModelPlan plan{.parameters = parameter_count(c), .pieces = {c.vocab_size}};
                if (const int64_t pieces = source_pieces(c); pieces > 0) plan.pieces.push_back(pieces);
                plan.make = [c] { return std::make_unique<Model>(c); };
                return plan;
              },
          .describe =
              [](const Module& module, ConfigWriter& to) {
                const auto* const model = dynamic_cast<const Model*>(&module);
                if (model && has_details(*model)) return false;
                if (model) visit_fields(model->config(), FieldWriter(to));
                return model != nullptr;
              }};
}

// Entries are never removed, so that references stay valid.
struct Registry {
  std::mutex mutex;
  std::deque<Architecture> list{own<Transformer, TransformerConfig>(kArchitectures[0]),
                                own<LanguageModel, LanguageModelConfig>(kArchitectures[1])};
};
Registry& registry() {
  static Registry& all = *new Registry;  // never destroyed: models may be loaded during shutdown
  return all;
}

std::vector<const Architecture*> architectures() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<const Architecture*> list;
  for (const Architecture& a : all.list) list.push_back(&a);
  return list;
}

}  // namespace

void register_architecture(Architecture architecture) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const Architecture& a : all.list)
    if (a.name == architecture.name)
      throw UsageError("register_architecture: " + a.name + " exists already; give the new kind another name");
  all.list.push_back(std::move(architecture));
}

ModelPlan read_plan(const std::string& json, const std::string& where) {
  ConfigReader reader(json, where);
  const std::vector<const Architecture*> known = architectures();
  std::vector<std::string> names;
  for (const Architecture* a : known) names.push_back(a->name);
  const std::string name = reader.one_of(kArchitecture, names);
  for (const Architecture* a : known) {
    if (a->name != name) continue;
    try {
      ModelPlan plan = a->plan(reader);
      reader.finish();
      return plan;
    } catch (const ShapeError& e) {
      throw FormatError(where + ": " + e.what());
    }
  }
  throw FormatError(where + ": " + kArchitecture + " " + name + " is unknown");  // unreachable: one_of refuses it first
}

std::string describe(const Module& model) {
  for (const Architecture* a : architectures()) {
    ConfigWriter to;
    to.set(kArchitecture, a->name);
    if (a->describe(model, to)) return to.text();
  }
  throw UsageError("save: the model is of an unknown kind; register it with register_architecture()");
}

std::string write_config(const ModelConfig& config) {
  ConfigWriter w;
  w.set(kArchitecture, kArchitectures[config.index()]);
  std::visit([&](const auto& c) { visit_fields(c, FieldWriter(w)); }, config);
  return w.text();
}

ModelConfig read_config(const std::string& json, const std::string& where) {
  ConfigReader r(json, where);
  ModelConfig config;
  if (r.one_of(kArchitecture, {kArchitectures[0], kArchitectures[1]}) == kArchitectures[0])
    config = read_fields<TransformerConfig>(r);
  else
    config = read_fields<LanguageModelConfig>(r);
  r.finish();
  try {
    std::visit([](const auto& c) { validate(c); }, config);
  } catch (const ShapeError& e) {
    throw FormatError(where + ": " + e.what());
  }
  return config;
}

ModelConfig load_config(const std::string& directory) {
  const DirectorySnapshot files(directory, {kConfigFile});
  return read_config(files.read(kConfigFile, kLargestConfig), directory + "/" + kConfigFile);
}

template <>
TransformerConfig expect_config(const ModelConfig& config, const std::string& directory) {
  if (const auto* c = std::get_if<TransformerConfig>(&config)) return *c;
  throw UsageError(directory + " holds a language model, which does not translate; heed generate lets it write");
}

template <>
LanguageModelConfig expect_config(const ModelConfig& config, const std::string& directory) {
  if (const auto* c = std::get_if<LanguageModelConfig>(&config)) return *c;
  throw UsageError(directory + " holds a translator, not a language model; heed translate runs it");
}

}  // namespace heed::inline v0
