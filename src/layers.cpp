// SPDX-License-Identifier: MIT
#include "rotorlin/layers/any_layer.hpp"
#include "rotorlin/layers/shared_dictionary_linear.hpp"

namespace rotorlin {
namespace detail {
template void match_bias<float>(LayerRef<float>&, const ConstVectorRef<float>&, const ConstVectorRef<float>&);
template void match_bias<double>(LayerRef<double>&, const ConstVectorRef<double>&,
                                 const ConstVectorRef<double>&);
}  // namespace detail
template class ActivationLayer<float>;
template class ActivationLayer<double>;
template class BlockHadamardLinear<float>;
template class BlockHadamardLinear<double>;
template class DenseLinear<float>;
template class DenseLinear<double>;
template class KroneckerLinear<float>;
template class KroneckerLinear<double>;
template class LowRankLinear<float>;
template class LowRankLinear<double>;
template class Sequential<float>;
template class Sequential<double>;
template class SharedDictionaryLinear<float>;
template class SharedDictionaryLinear<double>;
}  // namespace rotorlin
