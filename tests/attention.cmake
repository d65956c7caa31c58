find_package(PkgConfig REQUIRED)
find_package(rapidcheck REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
set(attention ${CMAKE_SOURCE_DIR}/src/attention)
heed_test(attention_test ${attention}/attention_test.cc COMPUTES LIBS heed::attention)
heed_test(attention_check_test ${attention}/check_test.cc ${attention}/merge_test.cc ${attention}/plan_test.cc
           LIBS heed::attention)
heed_test(attention_fused_test ${attention}/fused_test.cc COMPUTES LIBS heed::attention PkgConfig::hwy)
heed_test(attention_large_scores_test ${attention}/large_scores_test.cc COMPUTES LIBS heed::attention PkgConfig::hwy)
heed_test(simd_test ${CMAKE_SOURCE_DIR}/src/simd/simd_test.cc LIBS heed::attention PkgConfig::hwy)
if(TARGET simd_test)
  heed_kernels(simd_test ${CMAKE_SOURCE_DIR}/src/simd/simd_test.cc)
endif()
heed_test(attention_property_test ${attention}/property_test.cc COMPUTES LIBS heed::attention rapidcheck)
if(HEED_SANITIZE AND TARGET attention_property_test)
  # Errors of memory need fewer cases than errors of rounding; scripts/check-all runs all under the address sanitizer.
  set_property(TEST attention_property_test APPEND PROPERTY ENVIRONMENT RC_PARAMS=max_success=200)
endif()
heed_test(attention_part_test ${attention}/part_test.cc COMPUTES LIBS heed::attention rapidcheck)
heed_test(attention_decode_test ${attention}/decode_test.cc COMPUTES LIBS heed::attention rapidcheck PkgConfig::hwy
          LABELS threads)
heed_test(attention_kv_cache_test ${attention}/kv_cache_test.cc LIBS heed::attention rapidcheck)
heed_test(attention_score_mod_test ${attention}/score_mod_test.cc COMPUTES LIBS heed::attention)
heed_test(attention_block_mask_test ${attention}/block_mask_test.cc LIBS heed::attention)
heed_test(attention_rotary_test ${attention}/rotary_test.cc LIBS heed::attention)
heed_test(attention_ragged_test ${attention}/ragged_test.cc COMPUTES LIBS heed::attention)
heed_test(attention_inspect_test ${attention}/inspect_test.cc COMPUTES LIBS heed::attention PkgConfig::hwy LABELS threads)
heed_test(attention_threads_test ${attention}/threads_test.cc COMPUTES LIBS heed::attention LABELS threads)
heed_test(attention_memory_test ${attention}/memory_test.cc allocations.cc COMPUTES LIBS heed::attention
          UNSANITIZED *.Of65536Positions*)
heed_test(attention_flash_rule_test ${attention}/flash_rule_test.cc LIBS heed::attention LABELS unsanitized TIMEOUT 600)
# The textbook is most of its time.
set_source_files_properties(${attention}/flash_rule_test.cc PROPERTIES COMPILE_OPTIONS -O3)

# What takes longer than ./test should: ctest --preset dev -C full -L flash_full.
if(TARGET attention_flash_rule_test)
  foreach(size 32 40 59 64 80 96 111 128 160 192 224 256)
    add_test(NAME FlashRuleFull.${size} CONFIGURATIONS full
             COMMAND attention_flash_rule_test --gtest_filter=*Holds/${size})
    set_tests_properties(FlashRuleFull.${size} PROPERTIES LABELS flash_full ENVIRONMENT HEED_FLASH=1 TIMEOUT 20000)
  endforeach()
endif()

# Fast arithmetic is refused where a lambda is compiled, with a line that says what to do; without it the file is taken.
set(compile_score_mod ${CMAKE_CXX_COMPILER} -std=c++20 -fsyntax-only -I${CMAKE_SOURCE_DIR}/include)
set(score_mod_file ${CMAKE_CURRENT_SOURCE_DIR}/fast_math/score_mod.cc)
foreach(flags -ffast-math -ffinite-math-only -Ofast)
  add_test(NAME ScoreMod.Refuses${flags} COMMAND ${compile_score_mod} ${flags} ${score_mod_file})
  set_tests_properties(ScoreMod.Refuses${flags} PROPERTIES LABELS unsanitized
    PASS_REGULAR_EXPRESSION "score_mod: this file is compiled with -ffast-math.*block_mask: this file is compiled")
endforeach()
add_test(NAME ScoreMod.TakesIEEEArithmetic COMMAND ${compile_score_mod} -O3 -ffast-math -fno-fast-math ${score_mod_file})
set_tests_properties(ScoreMod.TakesIEEEArithmetic PROPERTIES LABELS unsanitized)
