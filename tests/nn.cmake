heed_test(functional_test ${CMAKE_SOURCE_DIR}/src/autograd/functional_test.cc LIBS heed::nn)
heed_test(layers_test ${CMAKE_SOURCE_DIR}/src/nn/layers_test.cc LIBS heed::nn)
heed_test(language_model_test ${CMAKE_SOURCE_DIR}/src/models/language_model_test.cc LIBS heed::nn)
