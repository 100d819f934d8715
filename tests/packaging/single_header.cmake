# SPDX-License-Identifier: MIT
# tools/single_header.sh makes one header that compiles, alone and without run-time type information.
set(header ${work}/rotorlin.hpp)
file(MAKE_DIRECTORY ${work})
execute_process(COMMAND ${root}/tools/single_header.sh ${header} COMMAND_ERROR_IS_FATAL ANY)
file(STRINGS ${header} left REGEX "#include [\"<]rotorlin/")
if(left)
  message(FATAL_ERROR "the single header includes others: ${left}")
endif()
file(WRITE ${work}/main.cpp "#include \"rotorlin.hpp\"\nint main() { return ROTORLIN_VERSION > 0 ? 0 : 1; }\n")
foreach(folder IN LISTS system)
  list(APPEND flags -isystem ${folder})
endforeach()
execute_process(COMMAND ${compiler} -std=c++20 -fsyntax-only -fno-rtti -Wall -Wextra -Werror ${flags} ${work}/main.cpp
                COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
