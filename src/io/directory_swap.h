// The two ways in which DirectoryTransaction puts a new directory in the place of an old one.
#pragma once

#include <string>

namespace heed::inline v0 {

/// Swaps two directories in one system call; false where the file system cannot. Throws IoError.
bool exchange_directories(const std::string& a, const std::string& b);

/// directory -> previous, part -> directory, previous -> part. A kill in between is put right by
/// DirectoryTransaction::recover. Throws IoError.
void replace_directory_by_two_renames(const std::string& part, const std::string& directory,
                                      const std::string& previous);

}  // namespace heed::inline v0
