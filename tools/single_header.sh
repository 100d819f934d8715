#!/bin/sh
# SPDX-License-Identifier: MIT
# single_header.sh [OUTPUT]: the whole library as one header, to standard output or a file. What it includes beside
# the standard library are Eigen and nlohmann/json. It is for header-only use, without rotorlin::compiled.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)

amalgamate() {
  awk -v root="$root/include/" '
    function emit(header, line, parts, depth, status, compiled) {
      if (header in done) return
      done[header] = 1
      depth = 0
      compiled = 0  # within #if defined(ROTORLIN_COMPILED): 1, behind its #else: 2
      while ((status = (getline line < (root header))) > 0) {
        if (line ~ /^#if defined\(ROTORLIN_COMPILED\)$/) {
          compiled = 1
          continue
        }
        if (compiled && line ~ /^#(else|endif)/) {
          compiled = line ~ /^#else/ ? 2 : 0
          continue
        }
        if (compiled == 1) continue
        if (line ~ /^#if/) ++depth
        if (line ~ /^#endif/) --depth
        if (line ~ /^#include "rotorlin\//) {
          split(line, parts, "\"")
          if (depth > 0 && !(parts[2] in done)) {  # it would be there under that condition only
            print "single_header.sh: " header " includes " parts[2] " within #if, before others do" > "/dev/stderr"
            exit 1
          }
          emit(parts[2])
        } else if (line !~ /^#pragma once/ && line !~ /^\/\/ SPDX-License-Identifier/) {
          print line
        }
      }
      if (status < 0) {
        print "single_header.sh: cannot read " root header > "/dev/stderr"
        exit 1
      }
      close(root header)
    }
    BEGIN {
      print "// SPDX-License-Identifier: MIT"
      print "// rotorlin in one header, made by tools/single_header.sh. Licence: MIT, see LICENSE of the project."
      print "#pragma once"
      emit("rotorlin/rotorlin.hpp")
    }'
}

if [ $# -gt 0 ]; then
  mkdir -p "$(dirname "$1")"
  amalgamate >"$1"
else
  amalgamate
fi
