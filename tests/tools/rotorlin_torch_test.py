#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rotorlin_torch_test.py TESTS: tools/rotorlin_torch.py on the files in the folder of the tests. Ends with 77 where
PyTorch is missing. With --write FILE it writes what tests/files/registry_test.cpp reads."""
import glob
import json
import os
import struct
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import rotorlin_torch as rt


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def fails(call, text):
    try:
        call()
    except (rt.Error, ValueError) as error:
        check(text in str(error), f"'{error}' does not say '{text}'")
        return
    raise AssertionError(f"no error that says '{text}'")


def seed(tests, name, folder):
    """A seed of the fuzz targets is a file without the length of its header."""
    with open(os.path.join(tests, "fuzz", "seeds", name), "rb") as file:
        header, values = file.read().split(b"\0", 1)
    path = os.path.join(folder, os.path.basename(name))
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + values)
    return path


def golden(tests, name):
    """Outputs and gradients of the reference vectors, by autograd."""
    with open(os.path.join(tests, "golden", name)) as file:
        vectors = json.load(file)
    number = {key: torch.tensor(value, dtype=torch.float64) for key, value in vectors.items() if isinstance(value, list)}
    single, one = vectors["single_rotor"], vectors["in_chunks"] * vectors["out_chunks"] == 1
    names = ["bivectors_left"] + ([] if single else ["bivectors_right"]) + ["alpha", "bias"]
    names = [name for name in names if name in number]
    options = {"in": vectors["in_dim"], "out": vectors["out_dim"], "chunk": vectors["chunk_size"],
               "in_chunks": vectors["in_chunks"], "out_chunks": vectors["out_chunks"], "width": 1,
               "single_rotor": str(single).lower(), "bias": str("bias" in number).lower(),
               "bias_inside_alpha": str(one).lower()}
    layer = rt.RotorLinear(options, torch.cat([number[name].reshape(-1) for name in names]))
    x = number["x"].clone().requires_grad_()
    y = layer(x)
    check((y - number["y"]).abs().max() < 1e-12, f"{name}: y")
    ((y - number["target"]) ** 2).sum().div(2).backward()
    expected = torch.cat([number["grad_" + name].reshape(-1) for name in names])
    check((layer.flat.grad - expected).abs().max() < 1e-10, f"{name}: gradients")
    check((x.grad - number["grad_x"]).abs().max() < 1e-11, f"{name}: dL/dx")


def tuned(tests, folder):
    """A layer of several parts after a few steps of training in torch."""
    layer = rt.load(seed(tests, "layers/sequential", folder))
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    torch.manual_seed(1)
    x, target = torch.randn(32, 8), torch.randn(32, 2)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = ((layer(x) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    check(losses[-1] < losses[0], "training makes the loss smaller")
    return layer


def main(tests):
    for name in ("layer_8_8_8_double.json", "layer_16_8_8_single.json", "layer_12_20_8_double.json"):
        golden(tests, name)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("dense", "low_rank", "rotor", "rotor_chunks", "network", "network_plain", "sequential"):
            rt.load(seed(tests, "layers/" + name, folder))  # replays the self-test
        for path in sorted(glob.glob(os.path.join(tests, "fuzz", "seeds", "shared_dictionaries", "*"))):
            layers = rt.load_shared(seed(tests, "shared_dictionaries/" + os.path.basename(path), folder))
            check(layers, path)

        # saved again, and what is wrong is seen
        layer = tuned(tests, folder)
        path = os.path.join(folder, "tuned.safetensors")
        rt.save(layer, path)
        x = torch.randn(3, 8)
        check(torch.equal(rt.load(path)(x), layer(x)), "saved and loaded")
        check(layer(torch.randn(2, 5, 8)).shape == (2, 5, 2), "any leading dimensions")
        fails(lambda: layer(torch.randn(2, 7)), "expected ... x 8")
        file = rt.File(path)
        tensors = {name: file[name] for name in ("parameters", "self_test.input", "self_test.output")}
        tensors["parameters"] = tensors["parameters"] * 1.1
        rt.write_file(path, tensors, file.metadata)
        fails(lambda: rt.load(path), "self-test of a Sequential fails")
        tensors["parameters"] = tensors["parameters"][:-1]
        rt.write_file(path, tensors, file.metadata)
        fails(lambda: rt.load(path), "do not belong together")
        fails(lambda: rt.load(seed(tests, "layers/kronecker", folder)), "KroneckerLinear")
        fails(lambda: rt.load_shared(seed(tests, "layers/dense", folder)), "no layers on shared dictionaries")
        fails(lambda: rt.load(__file__), "no safetensors file")
    return 0


if __name__ == "__main__":
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    if len(sys.argv) == 3 and sys.argv[1] == "--write":
        with tempfile.TemporaryDirectory() as scratch:
            rt.save(tuned(root, scratch), sys.argv[2])
    else:
        sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else root))
