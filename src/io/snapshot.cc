#include "io/snapshot.h"

#include <utility>

namespace heed::inline v0 {

struct DirectorySnapshot::InMemory : Files {
  InMemory(std::string directory, std::map<std::string, std::string> given) : Files(std::move(directory)) {
    for (auto& [name, content] : given) files[name] = std::make_shared<std::string>(std::move(content));
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, content] : files) all.push_back(name);
    return all;
  }

  bool contains(const std::string& name) const override { return files.contains(name); }

  std::string read(const std::string& name, uint64_t limit) const override {
    const std::string& content = *held(name);
    if (content.size() > limit)
      throw FormatError(where + "/" + name + ": it has " + std::to_string(content.size()) + " bytes; at most " +
                        std::to_string(limit) + " are read");
    return content;
  }

  // A tensor's memory may be that of the file, which nobody else writes to.
  FileBytes bytes(const std::string& name) const override {
    const std::shared_ptr<std::string> content = held(name);
    return {content, reinterpret_cast<std::byte*>(content->data()), content->size()};
  }

  std::shared_ptr<std::string> held(const std::string& name) const {
    const auto it = files.find(name);
    if (it == files.end()) throw IoError("open " + where + "/" + name + ": there is no such file");
    return it->second;
  }

  std::map<std::string, std::shared_ptr<std::string>> files;
};

DirectorySnapshot DirectorySnapshot::in_memory(std::string where, std::map<std::string, std::string> files) {
  return DirectorySnapshot(std::make_shared<InMemory>(std::move(where), std::move(files)));
}

const std::string& DirectorySnapshot::where() const { return files_->where; }
std::string DirectorySnapshot::path(const std::string& name) const {
  return where() + (where().ends_with('/') ? "" : "/") + name;
}
std::vector<std::string> DirectorySnapshot::names() const { return files_->names(); }
bool DirectorySnapshot::contains(const std::string& name) const { return files_->contains(name); }
std::string DirectorySnapshot::read(const std::string& name, uint64_t limit) const { return files_->read(name, limit); }
SafetensorsFile DirectorySnapshot::safetensors(const std::string& name) const {
  return {path(name), files_->bytes(name)};
}

}  // namespace heed::inline v0
