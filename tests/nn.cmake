heed_test(functional_test ${CMAKE_SOURCE_DIR}/src/autograd/functional_test.cc
          ${CMAKE_SOURCE_DIR}/src/autograd/large_masks_test.cc LIBS heed::nn)
heed_test(layers_test ${CMAKE_SOURCE_DIR}/src/nn/layers_test.cc COMPUTES LIBS heed::nn
          UNSANITIZED Layers.TransformerLossGradients)  # train_test covers its memory
heed_test(head_control_test ${CMAKE_SOURCE_DIR}/src/nn/head_control_test.cc LIBS heed::nn)
heed_test(language_model_test ${CMAKE_SOURCE_DIR}/src/models/language_model_test.cc LIBS heed::nn)
heed_test(image_encoder_test ${CMAKE_SOURCE_DIR}/src/models/image_encoder_test.cc LIBS heed::nn)
heed_test(speech_transformer_test ${CMAKE_SOURCE_DIR}/src/models/speech_transformer_test.cc LIBS heed::nn)
heed_test(models_finite_test ${CMAKE_SOURCE_DIR}/src/models/finite_test.cc LIBS heed::nn)
heed_test(models_threads_test ${CMAKE_SOURCE_DIR}/src/models/threads_test.cc LIBS heed::nn LABELS threads)
heed_test(models_search_test ${CMAKE_SOURCE_DIR}/src/models/search_test.cc LIBS heed::nn)
heed_test(models_ensemble_test ${CMAKE_SOURCE_DIR}/src/models/ensemble_test.cc LIBS heed::nn)
