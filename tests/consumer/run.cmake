# SPDX-License-Identifier: MIT
# Builds and runs the consumer project in a fresh folder. way: find_package (against an installed tree) or
# add_subdirectory.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${work})
if(way STREQUAL "find_package")
  run(${CMAKE_COMMAND} --install ${rotorlin_build} --prefix ${work}/prefix)
  set(argument -D CMAKE_PREFIX_PATH=${work}/prefix)
  if(programs)  # ROTORLIN_INSTALL_PROGRAMS
    run(${work}/prefix/bin/rotorlin-compress --help)
    run(${work}/prefix/bin/rotorlin-fit --help)
  endif()
else()
  set(argument -D ROTORLIN_SOURCE=${rotorlin_source})
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${work}/build -G ${generator} -D
    CMAKE_CXX_COMPILER=${compiler} -D CMAKE_BUILD_TYPE=None -D
    CMAKE_MODULE_PATH=${CMAKE_CURRENT_LIST_DIR}/modules ${argument})
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/consumer)
