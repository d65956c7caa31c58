set(mpi ${CMAKE_SOURCE_DIR}/src/mpi)
heed_test(mpi_attention_test ${mpi}/attention_test.cc LIBS heed::mpi rapidcheck LABELS threads)
heed_test(mpi_rules_test ${mpi}/rules_test.cc LIBS heed::mpi LABELS threads)
if(HEED_NN)
  heed_test(context_ranks_test ${CMAKE_SOURCE_DIR}/src/train/context_ranks_test.cc LIBS heed::nn heed::mpi LABELS threads)
endif()

if(TARGET heed_messages AND NOT HEED_SANITIZE)  # MPI itself leaks, and races by design
  add_executable(mpi_ranks ${CMAKE_CURRENT_SOURCE_DIR}/mpi/ranks.cc)
  target_link_libraries(mpi_ranks PRIVATE heed_flags heed::mpi)
  find_package(MPI QUIET COMPONENTS CXX)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  # heed_mpirun_test(NAME MPIRUN [FOLDER]): the library of messages is the build tree's, or that in FOLDER. Tests with a
  # FOLDER, and those under SLURM, run in scripts/check-all.
  function(heed_mpirun_test name mpirun)
    set(labels ranks)
    if(ARGN)
      list(APPEND labels long)
    endif()
    add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/mpi/mpirun.py ${mpirun}
             $<TARGET_FILE:mpi_ranks>)
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 600 RUN_SERIAL ON)
    if(ARGN)
      set_tests_properties(${name} PROPERTIES ENVIRONMENT "LD_LIBRARY_PATH=${ARGN}")
    endif()
    if(HEED_CLI)
      string(REPLACE mpi.mpirun program.ranks program_name ${name})
      add_test(NAME ${program_name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/program/ranks_test.py -v)
      set_tests_properties(${program_name} PROPERTIES LABELS "program;${labels}" TIMEOUT 1500 COST 200
        ENVIRONMENT "${program_environment};HEED_MPIRUN=${mpirun};LD_LIBRARY_PATH=${ARGN}")
      string(REPLACE ranks slurm slurm_name ${program_name})
      add_test(NAME ${slurm_name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/program/slurm_test.py -v)
      set_tests_properties(${slurm_name} PROPERTIES LABELS "program;ranks;long" TIMEOUT 600 COST 60
        ENVIRONMENT "${program_environment};HEED_MPIRUN=${mpirun};LD_LIBRARY_PATH=${ARGN}")
    endif()
  endfunction()
  heed_mpirun_test(mpi.mpirun ${MPIEXEC_EXECUTABLE})

  # The same program over MPICH, where that stands beside another MPI, as Debian's does.
  find_program(HEED_MPICXX_MPICH mpicxx.mpich)
  find_program(HEED_MPIRUN_MPICH mpirun.mpich)
  if(HEED_MPICXX_MPICH AND HEED_MPIRUN_MPICH)
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/mpich)
    file(MAKE_DIRECTORY ${folder})
    set(source ${CMAKE_SOURCE_DIR}/src/mpi/message_passing.cc)
    add_custom_command(OUTPUT ${folder}/libheed_messages.so.1
      COMMAND ${HEED_MPICXX_MPICH} -cxx=${CMAKE_CXX_COMPILER} -std=c++20 -O1 -fPIC -shared -DMPICH_SKIP_MPICXX
              -I${CMAKE_SOURCE_DIR}/src ${source} -o ${folder}/libheed_messages.so.1
      DEPENDS ${source} ${CMAKE_SOURCE_DIR}/src/mpi/message_passing.h
      VERBATIM)
    add_custom_target(heed_messages_mpich ALL DEPENDS ${folder}/libheed_messages.so.1)
    heed_mpirun_test(mpi.mpirun_mpich ${HEED_MPIRUN_MPICH} ${folder})
  endif()
endif()
