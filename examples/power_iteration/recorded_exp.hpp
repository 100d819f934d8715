// SPDX-License-Identifier: MIT
/// \file
/// The exponential of a bivector as the paper computes it, with the gradient that automatic differentiation
/// gives it: through the steps of the power iteration that were recorded, the vector from which they start
/// being a constant.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <vector>

#include "rotorlin/algebra/multivector.hpp"
#include "rotorlin/core/types.hpp"
#include "rotorlin/exponential/invariant_decomposition.hpp"
#include "rotorlin/exponential/power_iteration.hpp"

namespace examples {

using Bivector = rotorlin::Bivector<double, rotorlin::Dynamic>;
using Rotor = rotorlin::Rotor<double, rotorlin::Dynamic>;
using rotorlin::Index;
using rotorlin::Matrix;

/// exp(b) ~ prod_p (cos|b_p| + sin|b_p| b_p/|b_p|), where the part b_p = v ^ u of the remainder B comes from
/// v = v_K, v_k = normalised((v_(k-1) . B) . B) and u = v . B, and the last part is what remains.
class RecordedExp {
 public:
  /// `start`: v_0 of each part but the last, as columns; `steps`: K of each.
  RecordedExp(const Bivector& b, const Matrix<double>& start, const std::vector<int>& steps)
      : rotor_(b.dimension()) {
    Bivector rest = b;
    for (std::size_t p = 0; p < steps.size(); ++p) {
      Extraction e;
      e.skew = rest.to_skew_matrix();
      e.v.push_back(start.col(static_cast<Index>(p)));
      for (int k = 0; k < steps[p]; ++k) {
        const Eigen::VectorXd next = e.skew * (e.skew * e.v.back());
        e.norm.push_back(next.norm());
        e.v.push_back(next / e.norm.back());
      }
      e.u = e.skew.transpose() * e.v.back();
      parts_.push_back(
          Bivector::from_skew_matrix(e.v.back() * e.u.transpose() - e.u * e.v.back().transpose()));
      rest -= parts_.back();
      extractions_.push_back(std::move(e));
    }
    parts_.push_back(rest);
    for (const Bivector& part : parts_) {
      const double angle = part.norm();
      Rotor factor = part.even_part() * rotorlin::detail::sinc(angle);
      factor[0] = std::cos(angle);
      factors_.push_back(factor);
      rotor_ = rotor_ * factor;
    }
  }

  const Rotor& rotor() const { return rotor_; }

  /// dL/db from dL/dr, of the computation above as it stands.
  Bivector vjp(const Rotor& grad_r) const {
    std::vector<Bivector> grad_parts = gradients_of_parts(grad_r);
    Bivector grad_rest = grad_parts.back();
    for (std::size_t p = extractions_.size(); p-- > 0;) {
      const Extraction& e = extractions_[p];
      const Matrix<double> grad_part = (grad_parts[p] - grad_rest).to_skew_matrix();
      const Eigen::VectorXd& v = e.v.back();
      const Eigen::VectorXd grad_u = -(grad_part * v);
      Matrix<double> grad_skew = v * grad_u.transpose();
      Eigen::VectorXd grad_v = grad_part * e.u + e.skew * grad_u;
      for (std::size_t k = e.norm.size(); k-- > 0;) {
        const Eigen::VectorXd &from = e.v[k], &to = e.v[k + 1];
        const Eigen::VectorXd grad_next = (grad_v - to * to.dot(grad_v)) / e.norm[k];
        const Eigen::VectorXd grad_once = e.skew.transpose() * grad_next;
        grad_skew += grad_next * (e.skew * from).transpose() + grad_once * from.transpose();
        grad_v = e.skew.transpose() * grad_once;
      }
      grad_rest += Bivector::from_skew_matrix(grad_skew - grad_skew.transpose());
    }
    return grad_rest;
  }

 private:
  struct Extraction {
    Matrix<double> skew;             ///< B
    std::vector<Eigen::VectorXd> v;  ///< v_0 .. v_K
    std::vector<double> norm;        ///< |(v_(k-1) . B) . B|, k = 1 .. K
    Eigen::VectorXd u;
  };

  /// dL/db_p of every part: <a b, g> = <b, a~ g> = <a, g b~>.
  std::vector<Bivector> gradients_of_parts(const Rotor& grad_r) const {
    std::vector<Bivector> result;
    Rotor grad = grad_r;  // of the product of the factors from p on
    for (std::size_t p = 0; p < factors_.size(); ++p) {
      Rotor after(rotor_.dimension());
      for (std::size_t q = p + 1; q < factors_.size(); ++q) after = after * factors_[q];
      const Rotor grad_factor = grad * after.reversed();
      grad = factors_[p].reversed() * grad;
      const double angle = parts_[p].norm(), sinc = rotorlin::detail::sinc(angle);
      const Bivector direct = grad_factor.bivector_part();
      Bivector g = direct * sinc;
      if (angle > 0) {
        const Bivector unit = parts_[p] / angle;
        const double along = unit.coeffs().dot(direct.coeffs());
        g += unit * ((std::cos(angle) - sinc) * along - std::sin(angle) * grad_factor[0]);
      }
      result.push_back(g);
    }
    return result;
  }

  std::vector<Extraction> extractions_;
  std::vector<Bivector> parts_;  ///< b_p
  std::vector<Rotor> factors_;   ///< of each part
  Rotor rotor_;
};

/// The authors' protocol: from the vectors of the last call the power iteration runs until it stops (at most
/// 20 steps), unrecorded; then once more, recorded.
inline RecordedExp published_exp(const Bivector& b, rotorlin::PowerIteration<double>& iteration) {
  iteration.compute(b);
  const Matrix<double> start = iteration.vectors();
  iteration.compute(b);
  return {b, start, iteration.steps()};
}

}  // namespace examples
