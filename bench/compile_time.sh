#!/bin/sh
# SPDX-License-Identifier: MIT
# What including the library costs: CPU seconds and peak memory of compiling one small file, header-only and
# linked to rotorlin::compiled, beside a file with one product of Eigen's.
#
#     bench/compile_time.sh [COMPILER] [FLAGS...]       default: c++ -std=c++20 -O2
#
# EIGEN names Eigen's include folder (default /usr/include/eigen3). Of three runs of each the quickest counts.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
compiler=${1:-c++}
[ $# -gt 0 ] && shift
[ $# -eq 0 ] && set -- -std=c++20 -O2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat > "$work/product.cpp" <<'END'
#include <Eigen/Core>
int main(int count, char**) {
  const Eigen::MatrixXd a = Eigen::MatrixXd::Random(10 * count, 10), b = Eigen::MatrixXd::Random(10, 10);
  const Eigen::MatrixXd c = a * b;
  return static_cast<int>(c(0, 0));
}
END
cat > "$work/rotor.cpp" <<'END'
#include <rotorlin/algebra/rotor.hpp>
#include <rotorlin/exponential/exp.hpp>
int main(int count, char**) {
  rotorlin::Bivector<double, 3> b;
  b[0] = count;
  return static_cast<int>(rotorlin::exp(b)[0]);
}
END
cat > "$work/forward.cpp" <<'END'
#include <rotorlin/layers/rotor_linear.hpp>
int main() {
  const rotorlin::RotorLinear<float> layer(64, 64);
  const rotorlin::Matrix<float> y = layer.forward(rotorlin::Matrix<float>::Ones(64, 100));
  return static_cast<int>(y(0, 0));
}
END
cat > "$work/fit.cpp" <<'END'
#include <rotorlin/layers/rotor_linear.hpp>
#include <rotorlin/files/serialization.hpp>
#include <rotorlin/training/fit.hpp>
int main() {
  rotorlin::RotorLinear<float> layer(64, 64);
  const rotorlin::Matrix<float> x = rotorlin::Matrix<float>::Ones(64, 100), y = x;
  const rotorlin::FitResult result = rotorlin::fit(layer, x, y);
  rotorlin::save(layer, "layer.safetensors");
  const auto again = rotorlin::load<rotorlin::RotorLinear<float>>("layer.safetensors");
  return static_cast<int>(result.epochs + again.in_features());
}
END
cat > "$work/compressor.cpp" <<'END'
#include <rotorlin/geopair/compressor.hpp>
int main() {
  const rotorlin::Matrix<float> x = rotorlin::Matrix<float>::Ones(64, 100);
  rotorlin::GramAccumulator seen(64);
  seen.add(x);
  rotorlin::GeoPairCompressor compressor;
  compressor.add_layer("layers.0.q", x.transpose(), compressor.add_gram(seen.gram()));
  return static_cast<int>(compressor.compress({.ratio = 0.3}).layers.size());
}
END

# "seconds megabytes" of one file
measure() {
  file=$1; shift
  for run in 1 2 3; do
    /usr/bin/time -f '%U %S %M' -o "$work/time" "$compiler" "$@" -I"$root/include" \
      -isystem "${EIGEN:-/usr/include/eigen3}" -c "$work/$file.cpp" -o "$work/$file.o"
    cat "$work/time"
  done | awk '{ s = $1 + $2; if (!n++ || s < best) { best = s; memory = $3 / 1024 } } END { print best, memory }'
}
row() {
  awk -v name="$1" -v base="$base" -v measured="$2" 'BEGIN {
    split(measured, part, " "); split(base, first, " ")
    printf "| %-40s | %6.2f | %5.2f | %5.0f |\n", name, part[1], part[1] / first[1], part[2] }'
}

echo "| file, $compiler $* | CPU s | multiple | peak MB |"
echo "|---|--:|--:|--:|"
base=$(measure product "$@")
row "Eigen: one product" "$base"
for each in rotor forward fit compressor; do
  row "$each, header-only" "$(measure $each "$@")"
  row "$each, rotorlin::compiled" "$(measure $each "$@" -DROTORLIN_COMPILED)"
done
