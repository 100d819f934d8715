// SPDX-License-Identifier: MIT
/// \file
/// Short names of the usual algebras: f is float, d is double. (Vector3d and its like are Eigen's.)
#pragma once

#include "rotorlin/algebra/multivector.hpp"

namespace rotorlin {

using Rotor2f = Rotor<float, 2>;
using Rotor2d = Rotor<double, 2>;
using Rotor3f = Rotor<float, 3>;
using Rotor3d = Rotor<double, 3>;
using Rotor4f = Rotor<float, 4>;
using Rotor4d = Rotor<double, 4>;
using RotorXf = Rotor<float, Dynamic>;
using RotorXd = Rotor<double, Dynamic>;

using Bivector2f = Bivector<float, 2>;
using Bivector2d = Bivector<double, 2>;
using Bivector3f = Bivector<float, 3>;
using Bivector3d = Bivector<double, 3>;
using Bivector4f = Bivector<float, 4>;
using Bivector4d = Bivector<double, 4>;
using BivectorXf = Bivector<float, Dynamic>;
using BivectorXd = Bivector<double, Dynamic>;

using Multivector2f = Multivector<float, 2>;
using Multivector2d = Multivector<double, 2>;
using Multivector3f = Multivector<float, 3>;
using Multivector3d = Multivector<double, 3>;
using Multivector4f = Multivector<float, 4>;
using Multivector4d = Multivector<double, 4>;
using MultivectorXf = Multivector<float, Dynamic>;
using MultivectorXd = Multivector<double, Dynamic>;

/// Rotors of projective geometry, Cl(n, 0, 1): rotations and translations of n dimensions.
using Motor2f = Rotor<float, 2, 0, 1>;
using Motor2d = Rotor<double, 2, 0, 1>;
using Motor3f = Rotor<float, 3, 0, 1>;
using Motor3d = Rotor<double, 3, 0, 1>;

}  // namespace rotorlin
