// What heed serve answers about one model.
#pragma once

#include <string>
#include <vector>

#include "heed/http_server.h"
#include "heed/load.h"

namespace heed::inline v0 {

class ServedModel {
 public:
  /// Throws as load(), and UsageError for models that read no texts.
  ServedModel(const std::string& directory, const LoadOptions& options);

  /// GET of the address itself is a page; POST translate, generate, embed and attend take and give JSON
  /// (docs/serving.md). They need this model.
  std::vector<HttpRoute> routes() const;

 private:
  std::string page(HttpCall& call) const;
  std::string translate(HttpCall& call) const;
  std::string generate(HttpCall& call) const;
  std::string embed(HttpCall& call) const;
  std::string attend(HttpCall& call) const;

  /// Throws UsageError, which says what the model is, where it is another.
  template <class Model>
  const Model& expect(const char* wanted) const;

  const std::string directory_;
  const StoredModel model_;
  const SentenceModules modules_;
};

}  // namespace heed::inline v0
