// One clear error where a compiler is asked for an older standard, instead of pages of them.
#pragma once

#if defined(_MSVC_LANG)
#define HEED_LANGUAGE _MSVC_LANG
#else
#define HEED_LANGUAGE __cplusplus
#endif
#if HEED_LANGUAGE < 201709L  // that of GCC 10 with -std=c++20
#error "heed needs C++20; compile with -std=c++20 or a newer standard"
#include <heed_needs_cpp20>  // does not exist: compilers continue after #error, and end here
#endif
#undef HEED_LANGUAGE
