// The orientation that a PNG's metadata give its picture.
#pragma once

#include <cstdio>
#include <string>

namespace heed::inline v0 {

/// EXIF's orientation of a PNG, 1..8: 1 is upright, 5..8 exchange width and height. Read, as Pillow's exif_transpose
/// does, from the chunk eXIf, else from the text "Raw profile type exif", and where neither has one from the XMP text.
/// 1 where there is none, or none that is understood. `file` may stand anywhere. Throws FormatError, which begins with
/// `path`, for compressed text of more than 1 MiB, and IoError.
int png_orientation(std::FILE* file, const std::string& path);

}  // namespace heed::inline v0
