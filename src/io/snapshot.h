// Where the files of a DirectorySnapshot are.
#pragma once

#include <string>
#include <vector>

#include "heed/io.h"
#include "io/mapped_file.h"

namespace heed::inline v0 {

struct DirectorySnapshot::Files {
  explicit Files(std::string directory) : where(std::move(directory)) {}
  virtual ~Files() = default;
  virtual std::vector<std::string> names() const = 0;
  virtual bool contains(const std::string& name) const = 0;
  virtual std::string read(const std::string& name, uint64_t limit) const = 0;
  virtual FileBytes bytes(const std::string& name) const = 0;

  std::string where;
};

}  // namespace heed::inline v0
