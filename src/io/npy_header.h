// The header of an npy file, also inside an npz.
#pragma once

#include <span>
#include <string>

#include "heed/io.h"

namespace heed::inline v0 {

inline constexpr size_t kLongestNpyHeader = size_t{1} << 20;  // bytes, magic and version included

/// `start` holds the first bytes of the file, kLongestNpyHeader of them unless the file is shorter; `size` is the
/// length of the whole. Throws FormatError "WHERE: ...".
NpyInfo parse_npy_header(std::span<const std::byte> start, uint64_t size, const std::string& where);

/// `data` (info.data_bytes long) stays the tensor's memory where it can; `owner` (not null then) keeps it alive.
NpyArray npy_array(const NpyInfo& info, std::byte* data, const std::shared_ptr<void>& owner, const std::string& where);

}  // namespace heed::inline v0
