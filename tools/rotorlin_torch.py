#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Layers of rotorlin's files as torch.nn.Modules of plain torch operations, and back.

    layer = rotorlin_torch.load("layer.safetensors")             # replays the file's self-test, or raises Error
    y = layer(x)                                                 # x: ... x in, y: ... x out
    rotorlin_torch.save(layer, "tuned.safetensors")              # what rotorlin::load reads
    layers = rotorlin_torch.load_shared("compressed.safetensors")   # {name: module}, sharing dictionaries

Every module has `flat`, one parameter in the order of the C++ layer's parameters(), and is differentiable in it. A
rotor acts through the matrices that a Clifford algebra is: Cl(n) in complex matrices of 2^ceil(n/2) rows, where the
exponential of a bivector is torch.matrix_exp. Needs torch only.

    rotorlin_torch.py FILE [PREFIX]     prints what the file holds, after its self-test"""
import ctypes
import itertools
import json
import math
import os
import struct
import sys

import torch


class Error(Exception):
    """A file that does not hold what it should."""


# ---- files

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
          "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8, "I8": torch.int8}
EPSILON = {torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


class File:
    """A safetensors file: `metadata`, and tensors by name."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            data = file.read()
        try:
            (length,) = struct.unpack_from("<Q", data)
            header = json.loads(data[8 : 8 + length])
            self.metadata = header.pop("__metadata__", None) or {}
            self._entries, self._values = header, memoryview(data)[8 + length :]
        except (ValueError, struct.error, AttributeError) as error:
            raise Error(f"{path} is no safetensors file: {error}") from error

    def __contains__(self, name):
        return name in self._entries

    def __getitem__(self, name):
        if name not in self._entries:
            raise Error(f"{self.path} has no tensor '{name}'")
        entry = self._entries[name]
        begin, end = entry["data_offsets"]
        dtype = DTYPES.get(entry["dtype"])
        if dtype is None:
            raise Error(f"{self.path}: '{name}' is of the type {entry['dtype']}, which torch has none for")
        if begin == end:
            return torch.zeros(entry["shape"], dtype=dtype)
        return torch.frombuffer(bytearray(self._values[begin:end]), dtype=dtype).reshape(entry["shape"])


def write_file(path, tensors, metadata):
    """Written beside and renamed, so that it is whole or not there."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    header, parts, offset = {"__metadata__": metadata}, [], 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        parts.append(ctypes.string_at(tensor.data_ptr(), size) if size else b"")
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path = os.path.realpath(path)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


# ---- Cl(n) as matrices


class Algebra(torch.nn.Module):
    """Cl(n) in complex D x D matrices, D = 2^ceil(n/2), n <= 14. A blade is a monomial matrix: in row i its one entry
    stands in column i xor a, where the blades of one a are `count` many."""

    def __init__(self, n):
        super().__init__()
        self.n, self.count_of_bits = n, (n + 1) // 2
        size = 1 << self.count_of_bits
        rows = torch.arange(size)
        # e_2k = Z..Z X 1..1 and e_2k+1 = Z..Z Y 1..1 (Jordan and Wigner): (a, entry of each row)
        generators = []
        for k in range(n):
            bit = 1 << (k // 2)
            ones = torch.zeros(size, dtype=torch.long)
            for lower in range(k // 2):
                ones ^= (rows >> lower) & 1
            entry = (1 - 2 * ones).to(torch.complex128)
            if k % 2:
                entry = entry * torch.where((rows & bit) > 0, 1j, -1j)
            generators.append((bit, entry))
        blades = [blade for grade in range(n + 1) for blade in itertools.combinations(range(n), grade)]
        of_a = [[] for _ in range(size)]
        for number, blade in enumerate(blades):
            a, entry = 0, torch.ones(size, dtype=torch.complex128)
            for k in blade:
                shift, next_entry = generators[k]
                entry = entry * next_entry[rows ^ a]  # (A B)[i, i^a^b] = A[i, i^a] B[i^a, i^a^b]
                a ^= shift
            of_a[a].append((number, entry))
        self.size = size
        self.register_buffer("order", torch.tensor([[blade for blade, _ in group] for group in of_a]), persistent=False)
        self.register_buffer("entries", torch.stack([torch.stack([entry for _, entry in group]) for group in of_a]),
                             persistent=False)  # a, blade of a, row
        self.register_buffer("columns", (rows[None, :] ^ rows[:, None]), persistent=False)  # a, row
        pairs = list(itertools.combinations(range(n), 2))
        place = {blade: number for number, blade in enumerate(blades)}
        self.register_buffer("bivectors", torch.tensor([place[pair] for pair in pairs], dtype=torch.long),
                             persistent=False)

    def matrix(self, x):
        """... x 2^n coefficients -> ... x D x D."""
        by_a = torch.einsum("...ab,abi->...ai", x[..., self.order].to(self.complex(x)), self.entries.to(self.complex(x)))
        # M[i, i^a] = by_a[a, i]; the same rule gives row i, column j from a = i^j
        return by_a.transpose(-1, -2).gather(-1, self.columns.expand(by_a.shape))

    def coefficients(self, m):
        """The inverse of `matrix`."""
        by_a = m.gather(-1, self.columns.expand(m.shape)).transpose(-1, -2)
        x = torch.einsum("...ai,abi->...ab", by_a, self.entries.conj().to(m.dtype)).real / self.size
        flat = torch.zeros(*m.shape[:-2], 1 << self.n, dtype=x.dtype, device=x.device)
        return flat.index_copy(-1, self.order.reshape(-1), x.reshape(*m.shape[:-2], -1))

    def rotor(self, bivector):
        """exp of ... x n(n-1)/2 numbers, e12, e13, ..., as matrices."""
        x = torch.zeros(*bivector.shape[:-1], 1 << self.n, dtype=bivector.dtype, device=bivector.device)
        return torch.matrix_exp(self.matrix(x.index_copy(-1, self.bivectors, bivector)))

    @staticmethod
    def complex(x):
        return torch.complex128 if x.dtype == torch.float64 else torch.complex64


# ---- layers


def yes(options, key):
    return options[key] == "true"


def activate(name, z, slope):
    if name == "none":
        return z
    if name in ("prelu", "leaky_relu"):
        return torch.where(z > 0, z, slope * z)
    return getattr(torch.nn.functional, name)(z)


def normalized(z, epsilon):
    return torch.nn.functional.layer_norm(z, z.shape[-1:], eps=epsilon)


class Layer(torch.nn.Module):
    """`options` are the texts of the file, `flat` the parameters in their order there."""

    def __init__(self, options, flat):
        super().__init__()
        self.options = options
        self.in_features, self.out_features = int(options["in"]), int(options["out"])
        self.flat = torch.nn.Parameter(flat)

    def extra_repr(self):
        count = f", {self.flat.numel()} parameters" if hasattr(self, "flat") else ""
        return f"{self.in_features} -> {self.out_features}{count}"

    def forward(self, x):
        if x.shape[-1] != self.in_features:
            raise ValueError(f"{type(self).__name__}: x is {tuple(x.shape)}, expected ... x {self.in_features}")
        return self.run(x, self.flat)


class Rotors:
    """The shape of a rotor layer; `run` is one with these parameters."""

    def __init__(self, options, algebra_of):
        self.inputs, self.outputs = int(options["in"]), int(options["out"])
        self.chunk, self.width = int(options["chunk"]), int(options["width"])
        self.in_chunks, self.out_chunks = int(options["in_chunks"]), int(options["out_chunks"])
        self.single, self.has_bias = yes(options, "single_rotor"), yes(options, "bias")
        self.inside_alpha = yes(options, "bias_inside_alpha")
        self.n = self.chunk.bit_length() - 1
        self.algebra = algebra_of(self.n)
        self.pairs = self.in_chunks * self.out_chunks * self.width
        self.bivectors = self.n * (self.n - 1) // 2
        self.alphas = (1 if self.single else 2) * self.bivectors * self.pairs
        self.parameters = self.alphas + self.pairs + (self.outputs if self.has_bias else 0)
        self.cover = torch.zeros(self.outputs)
        for o in range(self.out_chunks):
            self.cover[self.features(o, self.outputs, self.out_chunks)] += 1

    def features(self, number, count, chunks):
        return (number * count // chunks + torch.arange(self.chunk)) % count

    def run(self, x, p):
        left = self.algebra.rotor(p[: self.bivectors * self.pairs].reshape(self.pairs, -1))
        right = left if self.single else self.algebra.rotor(
            p[self.bivectors * self.pairs : self.alphas].reshape(self.pairs, -1))
        shape = (self.in_chunks, self.out_chunks, self.width)
        left, right = (m.reshape(*shape, *m.shape[1:]) for m in (left, right))
        alpha = p[self.alphas : self.alphas + self.pairs].reshape(shape)
        y = x.new_zeros(*x.shape[:-1], self.outputs)
        chunks = [self.algebra.matrix(x[..., self.features(i, self.inputs, self.in_chunks).to(x.device)])
                  for i in range(self.in_chunks)]
        for o in range(self.out_chunks):
            m = sum(alpha[i, o, w] * (left[i, o, w] @ chunks[i] @ right[i, o, w].mH)
                    for i in range(self.in_chunks) for w in range(self.width))
            y = y.index_add(-1, self.features(o, self.outputs, self.out_chunks).to(x.device),
                            self.algebra.coefficients(m))
        y = y / (self.cover.to(y) * self.in_chunks)
        if not self.has_bias:
            return y
        bias = p[self.alphas + self.pairs :]
        return y + (alpha.reshape(()) * bias if self.inside_alpha else bias)


class RotorLinear(Layer):
    def __init__(self, options, flat):
        super().__init__(options, flat)
        self.algebra = Algebra(int(options["chunk"]).bit_length() - 1)
        self.rotors = Rotors(options, lambda n: self.algebra)

    def run(self, x, p):
        return self.rotors.run(x, p)


class RotorNetwork(Layer):
    def __init__(self, options, flat):
        super().__init__(options, flat)
        self.algebras = torch.nn.ModuleDict()
        hidden = int(options["hidden"])
        self.depth, self.width = int(options["depth"]), int(options["width"])
        self.parallel = yes(options, "parallel_output")
        self.first = self.between(self.in_features, hidden)
        self.inner = self.between(hidden, hidden)
        self.last = self.between(hidden, self.out_features)
        count = 1 + self.depth * self.width
        self.orders = [None] * count
        if yes(options, "use_permutations"):
            self.orders = [torch.tensor([int(j) for j in options[f"permutation.{i}"].split()]) for i in range(count)]
        residual = yes(options, "residual")
        self.residual_input = residual and self.in_features == hidden
        self.residual_output = residual and not self.parallel and self.out_features == hidden

    def between(self, inputs, outputs):
        """What RotorLinear chooses for these sides."""
        chunk = min(1 << (min(inputs, outputs).bit_length() - 1), 1 << 14)
        options = {"in": inputs, "out": outputs, "chunk": chunk, "in_chunks": -(-inputs // chunk),
                   "out_chunks": -(-outputs // chunk), "width": 1, "single_rotor": self.options["single_rotor"],
                   "bias": "false", "bias_inside_alpha": "false"}

        def algebra_of(n):
            if str(n) not in self.algebras:
                self.algebras[str(n)] = Algebra(n)
            return self.algebras[str(n)]

        return Rotors(options, algebra_of)

    def run(self, x, p):
        position = 0

        def rotor(shape, h):
            nonlocal position
            position += shape.parameters
            return shape.run(h, p[position - shape.parameters : position])

        def branch(number, shape, h):
            z = rotor(shape, h)
            if self.orders[number] is not None:
                z = z[..., self.orders[number].to(z.device)]
            if yes(self.options, "normalize"):
                z = normalized(z, float(self.options["epsilon"]))
            slope = p[-1] if self.options["activation"] == "prelu" else 0.01
            return activate(self.options["activation"], z, slope)

        outputs = self.width if self.parallel else 1
        rotors = (self.first.parameters + self.depth * self.width * self.inner.parameters +
                  outputs * self.last.parameters)
        weights = p[rotors : rotors + (self.depth + self.parallel) * self.width]
        h = branch(0, self.first, x)
        if self.residual_input:
            h = h + x
        for k in range(self.depth):
            numbers = range(k * self.width, (k + 1) * self.width)
            h = sum(weights[b] * branch(1 + b, self.inner, h) for b in numbers)
        if self.parallel:
            return sum(weights[self.depth * self.width + b] * rotor(self.last, h) for b in range(self.width))
        y = rotor(self.last, h)
        return y + h if self.residual_output else y


class DenseLinear(Layer):
    def run(self, x, p):
        size = self.in_features * self.out_features
        y = x @ p[:size].reshape(self.in_features, self.out_features)  # column-major out x in
        return y + p[size:] if yes(self.options, "bias") else y


class LowRankLinear(Layer):
    def run(self, x, p):
        rank = int(self.options["rank"])
        u, v = self.out_features * rank, rank * self.in_features
        y = x @ p[u : u + v].reshape(self.in_features, rank) @ p[:u].reshape(rank, self.out_features)
        return y + p[u + v :] if yes(self.options, "bias") else y


class ActivationLayer(Layer):
    def run(self, x, p):
        if yes(self.options, "normalize"):
            x = normalized(x, float(self.options["epsilon"]))
        slope = p[0] if self.options["activation"] == "prelu" else float(self.options["slope"])
        return activate(self.options["activation"], x, slope)


class Sequential(Layer):
    def __init__(self, options, flat):
        super().__init__(options, flat)
        self.parts = torch.nn.ModuleList()
        for k in range(int(options["layers"])):
            prefix = f"{k}."
            part = {key[len(prefix) :]: value for key, value in options.items() if key.startswith(prefix)}
            module = make(part.pop("layer"), part, torch.zeros(0, dtype=flat.dtype))
            self.parts.append(module)
            del module.flat  # the parameters are parts of this layer's
        self.counts = [count_parameters(part) for part in self.parts]

    def run(self, x, p):
        y, position = x, 0
        for part, count in zip(self.parts, self.counts):
            groups = y.shape[-1] // part.in_features
            y = part.run(y.reshape(*y.shape[:-1], groups, part.in_features), p[position : position + count])
            y = y.reshape(*y.shape[:-2], groups * part.out_features)
            position += count
        return y + x if yes(self.options, "adds_input") else y


def count_parameters(part):
    inputs, outputs, options = part.in_features, part.out_features, part.options
    if isinstance(part, RotorLinear):
        return part.rotors.parameters
    if isinstance(part, RotorNetwork):
        rotors = (part.first.parameters + part.depth * part.width * part.inner.parameters +
                  (part.width if part.parallel else 1) * part.last.parameters)
        return rotors + (part.depth + part.parallel) * part.width + (options["activation"] == "prelu")
    if isinstance(part, Sequential):
        return sum(part.counts)
    if isinstance(part, ActivationLayer):
        return int(options["activation"] == "prelu")
    bias = outputs if yes(options, "bias") else 0
    return (inputs * outputs if isinstance(part, DenseLinear) else int(options["rank"]) * (inputs + outputs)) + bias


LAYERS = {layer.__name__: layer
          for layer in (RotorLinear, RotorNetwork, DenseLinear, LowRankLinear, ActivationLayer, Sequential)}


def make(name, options, flat):
    if name not in LAYERS:
        raise Error(f"a layer of the type {name}, expected one of {', '.join(LAYERS)}")
    return LAYERS[name](options, flat)


def load(path, prefix=""):
    """The layer under a prefix ("" for a file of one layer), in the file's scalar. Raises Error."""
    file = File(path)
    name = file.metadata.get(prefix + "layer")
    if name is None:
        raise Error(f"{path} has no layer under the prefix '{prefix}', expected a file that rotorlin's save() made")
    try:
        layer = make(name, json.loads(file.metadata[prefix + "options"]), file[prefix + "parameters"])
        if count_parameters(layer) != layer.flat.numel():
            raise ValueError(f"{count_parameters(layer)} parameters by its options, {layer.flat.numel()} in the file")
        with torch.no_grad():
            y = layer(file[prefix + "self_test.input"].to(layer.flat.dtype))
    except (KeyError, ValueError, RuntimeError) as error:
        raise Error(f"{path}: a {name} whose options and parameters do not belong together: {error}") from error
    expected = file[prefix + "self_test.output"].to(y.dtype)
    error, allowed = (y - expected).abs().max(), math.sqrt(EPSILON[layer.flat.dtype]) * expected.abs().max()
    if not error <= allowed:
        raise Error(f"{path}: the self-test of a {name} fails: its output differs by {error}, tolerance {allowed}")
    return layer


def save(layer, path, prefix=""):
    """One layer, one file, as rotorlin's save(): with a self-test by this implementation."""
    generator = torch.Generator().manual_seed(0)
    x = (2 * torch.rand(4, layer.in_features, generator=generator) - 1).to(layer.flat)
    with torch.no_grad():
        y = layer(x)
    if not y.isfinite().all():
        raise Error(f"save: the output of this {type(layer).__name__} is not finite")
    write_file(path, {prefix + "parameters": layer.flat, prefix + "self_test.input": x, prefix + "self_test.output": y},
               {"format": "rotorlin", prefix + "layer": type(layer).__name__,
                prefix + "options": json.dumps(layer.options)})


# ---- layers on shared dictionaries


class SharedDictionaryLinear(torch.nn.Module):
    """y = C^T (D^T x) + b (side "input") or D (C^T x) + b (side "output"), D rows x rank; the zeros of a sparse C are
    stored."""

    def __init__(self, dictionary, coefficients, side, bias):
        super().__init__()
        self.dictionary = dictionary
        self.coefficients = torch.nn.Parameter(coefficients)
        self.side = side
        self.bias = None if bias is None else torch.nn.Parameter(bias)

    def forward(self, x):
        d, c = self.dictionary.atoms, self.coefficients
        y = x @ d @ c if self.side == "input" else x @ c @ d.T
        return y if self.bias is None else y + self.bias


class Dictionary(torch.nn.Module):
    def __init__(self, atoms):
        super().__init__()
        self.atoms = torch.nn.Parameter(atoms)


def mersenne_twister(count):
    """The first numbers of std::mt19937_64 of seed 0, uniform in [-1, 1)."""
    mask = (1 << 64) - 1
    state = [0]
    for i in range(1, 312):
        state.append((6364136223846793005 * (state[-1] ^ (state[-1] >> 62)) + i) & mask)
    numbers, place = [], 312
    for _ in range(count):
        if place == 312:
            for i in range(312):
                y = (state[i] & ~0x7FFFFFFF & mask) | (state[(i + 1) % 312] & 0x7FFFFFFF)
                state[i] = state[(i + 156) % 312] ^ (y >> 1) ^ (0xB5026F5AA96619E9 if y & 1 else 0)
            place = 0
        z = state[place]
        place += 1
        z ^= (z >> 29) & 0x5555555555555555
        z ^= (z << 17) & 0x71D67FFFEDA60000
        z ^= (z << 37) & 0xFFF7EEE000000000
        z ^= z >> 43
        numbers.append(-1 + 2 * ((z >> 11) * 2.0**-53))
    return torch.tensor(numbers, dtype=torch.float64)


def few_bits(file, name, bits, rows, dtype):
    """Values in blocks of 32 with a scale (docs/geopair.md, "Few bits"): whole numbers of `bits` bits, `rows` of them a
    column, columns as rows of the result."""
    q, scales = file[name], file[name + ".scales"].to(dtype)
    if bits < 8:
        ones = (q.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8)) & 1
        ones = ones.reshape(*q.shape[:-1], -1)[..., : rows * bits].reshape(*q.shape[:-1], rows, bits)
        q = (ones.long() * (1 << torch.arange(bits))).sum(-1) - (1 << (bits - 1))
    return scales.repeat_interleave(32, dim=-1)[..., :rows] * q.to(dtype)


def load_shared(path, dtype=torch.float32):
    """{name: SharedDictionaryLinear} of a file of compressed layers; those that shared a dictionary share it. Raises
    Error."""
    file = File(path)
    if "shared_dictionary_layers" not in file.metadata:
        raise Error(f"{path} has no layers on shared dictionaries")
    dictionaries, layers = {}, {}
    for entry in json.loads(file.metadata["shared_dictionary_layers"]):
        name, side = entry["name"], entry["side"]
        number, bits = entry["dictionary"], entry.get("bits", 0)
        if number not in dictionaries:
            prefix = f"dictionaries.{number}."
            identity = file[prefix + "identity_rows"].long() if prefix + "identity_rows" in file else []
            rows = entry["in"] if side == "input" else entry["out"]
            if bits:
                stored = few_bits(file, prefix + "atoms", bits, rows - len(identity), dtype).T
            else:
                stored = file[prefix + "atoms"].to(dtype)
            if len(identity):
                others = torch.ones(rows, dtype=torch.bool).index_fill(0, identity, False)
                atoms = torch.zeros(rows, stored.shape[1], dtype=dtype)
                atoms[others] = stored
                atoms[identity] = torch.eye(len(identity), stored.shape[1], dtype=dtype)
                stored = atoms
            dictionaries[number] = Dictionary(stored)
        rank = dictionaries[number].atoms.shape[1]
        rows, cols = (rank, entry["out"]) if side == "input" else (entry["in"], rank)
        if entry["storage"] == "dense":
            key = name + ".coefficients"
            c = (few_bits(file, key, bits, rows, dtype) if bits else file[key].to(dtype)).T
        else:
            mask = (file[name + ".mask"][:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
            mask = mask.reshape(-1)[: rows * cols].bool()
            values = torch.zeros(rows * cols, dtype=dtype)
            if bits:
                values[mask] = few_bits(file, name + ".values", bits, int(mask.sum()), dtype).reshape(-1)
            else:
                values[mask] = file[name + ".values"].to(dtype)
            c = values.reshape(cols, rows).T
        bias = file[name + ".bias"].to(dtype) if name + ".bias" in file else None
        layer = SharedDictionaryLinear(dictionaries[number], c.contiguous(), side, bias)
        random = mersenne_twister(entry["in"] + entry["out"]).to(dtype)
        x, u = random[: entry["in"]], random[entry["in"] :]
        with torch.no_grad():
            y = layer(x)
        test = (u.double() @ y.double()).item()
        stored = file[name + (".coefficients" if entry["storage"] == "dense" else ".values")].dtype
        epsilon = max(EPSILON.get(stored, 0), EPSILON[dtype])
        if not abs(test - entry["self_test"]) <= math.sqrt(epsilon) * (u.norm() * y.norm()).item():
            raise Error(f"{path}: the self-test of layer '{name}' fails: {test}, expected {entry['self_test']}")
        layers[name] = layer
    return layers


def main(arguments):
    if len(arguments) not in (1, 2) or arguments[0].startswith("-"):
        print(__doc__)
        return 0 if arguments and arguments[0] in ("-h", "--help") else 2
    try:
        if "shared_dictionary_layers" in File(arguments[0]).metadata:
            for name, layer in load_shared(arguments[0]).items():
                print(f"{name}: {layer}")
        else:
            print(load(*arguments))
    except (Error, OSError) as error:
        print(f"rotorlin_torch.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
