find_package(nlohmann_json 3.11 REQUIRED)
heed_test(load_test ${CMAKE_SOURCE_DIR}/src/load/attended_test.cc ${CMAKE_SOURCE_DIR}/src/load/load_test.cc
          ${CMAKE_SOURCE_DIR}/src/load/stop_texts_test.cc
          ${CMAKE_SOURCE_DIR}/src/load/text_reader_test.cc ${CMAKE_SOURCE_DIR}/src/load/token_file_test.cc
          ${CMAKE_SOURCE_DIR}/src/load/chat_test.cc ${CMAKE_SOURCE_DIR}/src/load/adapters_test.cc
          LIBS heed::load nlohmann_json::nlohmann_json UNSANITIZED ChatProgram.CountsTheWorkOfOperations)
if(TARGET load_test)
  target_compile_definitions(load_test PRIVATE HEED_CHATS="${CMAKE_CURRENT_SOURCE_DIR}/models/chats.json"
    HEED_CHAT_DIRECTORIES="${CMAKE_CURRENT_SOURCE_DIR}/models/chat_directories.json")
endif()

# Answers tests/models/fidelity.py, which compares it with transformers.
add_executable(model_probe models/probe.cc)
target_link_libraries(model_probe PRIVATE heed_flags heed::load nlohmann_json::nlohmann_json)
target_include_directories(model_probe PRIVATE ${CMAKE_SOURCE_DIR}/src)
