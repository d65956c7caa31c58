# The examples twice: their functions, included by the test beside each file, and the programs as they run.
set(examples ${CMAKE_SOURCE_DIR}/examples)
foreach(name basic_self_attention wide_attention causal_mask circle_embedding attention_layer)
  heed_test(${name}_test ${examples}/${name}_test.cc LIBS heed::nn LABELS examples)
endforeach()
foreach(name scale_experiment head_cost_experiment)
  heed_test(${name}_test ${examples}/experiments/${name}_test.cc LIBS heed::nn LABELS examples)
endforeach()
if(HEED_VIEW)
  heed_test(identity_heads_experiment_test ${examples}/experiments/identity_heads_experiment_test.cc
            LIBS heed::nn heed::view LABELS examples)
endif()

# heed_example_prints(NAME regex argument...): the program ends well, having printed what is expected.
function(heed_example_prints name regex)
  add_test(NAME example.${name} COMMAND ${name} ${ARGN})
  set_tests_properties(example.${name} PROPERTIES LABELS examples TIMEOUT 300 PASS_REGULAR_EXPRESSION "${regex}"
                                                  FAIL_REGULAR_EXPRESSION "[sS]anitizer|terminate called|nan")
endfunction()
heed_example_prints(basic_self_attention "f64.*positions, block +[0-9.e-]+ +[1-9]\\.[0-9]e-01")
heed_example_prints(wide_attention "f64: .* outputs [0-9.]+e-1[5-9] apart, gradients [0-9.]+e-1[4-9]")
heed_example_prints(causal_mask "0\\.31793058 +0\\.68206942 +0\\.00000000.*another v.*-0\\.58386373, and v begins -2\\.09988025")
heed_example_prints(circle_embedding "0\\.411603261466872.*0\\.375556006639227.*0\\.212840731893902.*the formula.*0\\.4274.*0\\.3820.*0\\.19056")
heed_example_prints(attention_layer "24 is not a multiple of 5 heads")
heed_example_prints(scale_experiment "Adam +0\\.0100 1 " 8)
heed_example_prints(head_cost_experiment "8 x 16 " 24 16 1)
if(HEED_VIEW)
  heed_example_prints(identity_heads_experiment "of 8 heads keep more than" 8)
endif()
