# SPDX-License-Identifier: MIT
# Each block of the README and of docs/algebra.md fenced with ```cpp becomes a program readme_<number> or
# algebra_<number> that must compile, run and return 0. In a block without a main function, the lines that begin
# with #include stand first and the rest is the body of main.

function(rotorlin_test_snippets name document)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${document})
  file(READ ${document} rest)

  set(fence "\n```cpp\n")
  set(number 0)
  while(TRUE)
    string(FIND "${rest}" "${fence}" begin)
    if(begin EQUAL -1)
      break()
    endif()
    math(EXPR begin "${begin} + 8")
    string(SUBSTRING "${rest}" ${begin} -1 rest)
    string(FIND "${rest}" "\n```" end)
    string(SUBSTRING "${rest}" 0 ${end} code)
    string(SUBSTRING "${rest}" ${end} -1 rest)

    string(FIND "${code}" "int main(" main)
    if(main EQUAL -1)
      set(code "${code}\n")
      set(includes "")
      set(body "")
      while(NOT code STREQUAL "")
        string(FIND "${code}" "\n" end)
        math(EXPR end "${end} + 1")
        string(SUBSTRING "${code}" 0 ${end} line)
        string(SUBSTRING "${code}" ${end} -1 code)
        if(line MATCHES "^#include")
          string(APPEND includes "${line}")
        else()
          string(APPEND body "${line}")
        endif()
      endwhile()
      set(code "${includes}int main() {\n${body}}")
    endif()

    math(EXPR number "${number} + 1")
    set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}_${number}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "@code@\n" @ONLY)
    add_executable(${name}_${number} ${source})
    target_link_libraries(${name}_${number} PRIVATE rotorlin_dev)
    # A sample names results that it has no use for.
    target_compile_options(${name}_${number} PRIVATE -O0 -Wno-unused-variable)
    add_test(NAME ${name}_${number} COMMAND ${name}_${number})
  endwhile()
endfunction()

rotorlin_test_snippets(readme ${PROJECT_SOURCE_DIR}/README.md)
rotorlin_test_snippets(algebra ${PROJECT_SOURCE_DIR}/docs/algebra.md)
