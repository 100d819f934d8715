// SPDX-License-Identifier: MIT
#include "rotorlin/io/safetensors.hpp"

#include "fuzz.hpp"

using namespace rotorlin;

namespace {

/// Every tensor is read in every way, and the file is written again.
void use(const SafetensorsFile& file) {
  SafetensorsWriter writer;
  for (const auto& [key, value] : file.metadata()) writer.set_metadata(key, value);
  for (const TensorInfo& tensor : file.tensors()) {
    fuzz::read([&] { file.vector<float>(tensor.name); });
    fuzz::read([&] { file.matrix<double>(tensor.name); });
    fuzz::read([&] { file.vector<std::int32_t>(tensor.name); });
    fuzz::read([&] { file.vector<bool>(tensor.name); });
    writer.add_view(tensor.name, tensor.dtype, tensor.shape, file.bytes(tensor.name));
  }
  const SafetensorsFile again(writer.bytes());
  if (again.tensors().size() != file.tensors().size()) std::abort();
  for (const TensorInfo& tensor : file.tensors()) {
    const auto before = file.bytes(tensor.name), after = again.bytes(tensor.name);
    if (!std::equal(before.begin(), before.end(), after.begin(), after.end())) std::abort();
    if (!(again.info(tensor.name).dtype == tensor.dtype)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  fuzz::read([&] { use(SafetensorsFile(fuzz::safetensors_of(input))); });
  fuzz::read([&] { use(SafetensorsFile(fuzz::MemoryFile(input).path())); });
  return 0;
}
