#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sums of x x^T over what the linear layers of a PyTorch model read, for compress_checkpoint --grams FILE.

Layers that read the same tensor (q, k and v of a block) share a matrix. A run that was interrupted, started
again with the same arguments, goes on from what it had written. Needs torch and transformers; in programs of your
own, collect(model, batches, "grams.safetensors") needs no transformers.

The file: a tensor LAYER, features x features, for every distinct input; metadata "tokens", JSON {LAYER: number of
samples}, and "same_inputs", JSON {LAYER: the one whose matrix serves it}."""
import argparse
import ctypes
import hashlib
import json
import os
import stat
import struct
import sys


class Error(Exception):
    """What the user can do something about."""


def check_output(path, inputs=()):
    """That a regular file, and none of the inputs, is what would be replaced."""
    if not os.path.exists(path):
        return
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise Error(f"{path} is no regular file, and only those are replaced")
    for each in inputs:
        if os.path.exists(each) and os.path.samefile(each, path):
            raise Error(f"{path} would be overwritten, and is read: it is {each}")


def bytes_of(tensor):
    """Of a tensor on the CPU; without numpy, which not every torch comes with."""
    tensor = tensor.contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""


def write_safetensors(path, tensors, metadata):
    """tensors: {name: float32 or float64 tensor on the CPU}. Written beside, synchronised and renamed."""
    import torch

    names = {torch.float32: "F32", torch.float64: "F64"}
    header, offset = {"__metadata__": metadata}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path = os.path.realpath(path)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for tensor in tensors.values():
                file.write(bytes_of(tensor))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def read_safetensors(path):
    """(tensors, metadata) of a file of float32, float64 or integer tensors."""
    import torch

    dtypes = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "I32": torch.int32,
              "I16": torch.int16, "U8": torch.uint8}
    with open(path, "rb") as file:
        data = file.read()
    try:
        length = struct.unpack_from("<Q", data)[0]
        header = json.loads(data[8:8 + length])
        tensors, metadata = {}, header.pop("__metadata__", {})
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            values = torch.frombuffer(bytearray(data[8 + length + begin:8 + length + end]), dtype=dtypes[entry["dtype"]])
            tensors[name] = values.reshape(entry["shape"])
    except (struct.error, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise Error(f"{path} can't be read as safetensors: {error}") from error
    return tensors, metadata


def features_of(module):
    """How many features a linear layer reads; None for other modules. Conv1D (GPT-2) stores in x out."""
    import torch

    if isinstance(module, torch.nn.Linear):
        return module.in_features
    if type(module).__name__ == "Conv1D" and hasattr(module, "weight"):
        return module.weight.shape[0]
    return None


class Collector:
    """Adds up x x^T in front of modules while `with` lasts."""

    def __init__(self, model, names=(), dtype=None):
        import torch

        self.dtype = dtype or torch.float32
        self.features, self.sums, self.tokens, self.same = {}, {}, {}, {}
        self.last, self.owner = None, None
        self.modules = {}
        for name, module in model.named_modules():
            features = features_of(module)
            wanted = name.endswith(tuple(names)) if names else not name.endswith("lm_head")
            if features is not None and wanted:
                self.modules[name], self.features[name] = module, features
        if not self.modules:
            raise Error("the model has no linear layer" + (f" whose name ends in {', '.join(names)}" if names else ""))

    def __enter__(self):
        def hook_of(name):
            return lambda module, inputs: self.add(name, inputs[0])

        self.hooks = [module.register_forward_pre_hook(hook_of(name)) for name, module in self.modules.items()]
        return self

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()
        self.last = None

    def add(self, name, x):
        shared = x is self.last
        if name not in self.tokens and name not in self.same:  # its first time decides
            if shared:
                self.same[name] = self.owner
        if name in self.same:
            if not shared or self.same[name] != self.owner:
                raise Error(f"'{name}' read the same as '{self.same[name]}' at first, and does not any more")
            return
        self.last, self.owner = x, name
        rows = x.detach().reshape(-1, x.shape[-1]).to(self.dtype)
        if name not in self.sums:
            import torch

            self.sums[name] = torch.zeros(rows.shape[1], rows.shape[1], dtype=self.dtype, device=rows.device)
        elif self.sums[name].device != rows.device:
            self.sums[name] = self.sums[name].to(rows.device)
        self.sums[name].addmm_(rows.T, rows)
        self.tokens[name] = self.tokens.get(name, 0) + rows.shape[0]

    def save(self, path, **more):
        """Layers that nothing has reached get zeros and no tokens: the compression does without."""
        import torch

        tensors = {name: gram.cpu() for name, gram in self.sums.items()}
        tokens = dict(self.tokens)
        for name, features in self.features.items():
            if name not in tokens and name not in self.same:
                tensors[name], tokens[name] = torch.zeros(features, features, dtype=self.dtype), 0
        for name, gram in tensors.items():
            if not torch.isfinite(gram).all():
                raise Error(f"what '{name}' reads has NaN or infinite entries, or its squares overflow (--double)")
        write_safetensors(path, tensors, {"format": "grams", "tokens": json.dumps(tokens),
                                          "same_inputs": json.dumps(self.same), **more})

    def load(self, path):
        """What save() has written; returns its metadata."""
        tensors, metadata = read_safetensors(path)
        tokens = json.loads(metadata.get("tokens", "{}"))
        self.tokens = {name: count for name, count in tokens.items() if count > 0}
        self.sums = {name: tensors[name].to(self.dtype) for name in self.tokens}
        self.same = json.loads(metadata.get("same_inputs", "{}"))
        return metadata


def collect(model, batches, path, names=(), dtype=None, every=50, run="", progress=lambda done: None):
    """Runs `model` on each of `batches` and writes the sums to `path`, every so many batches and at the end. `run`
    names model, data and options: a file of the same run is gone on from, one of another is an error."""
    import torch

    done = 0
    check_output(path)
    collector = Collector(model, names, dtype)
    if os.path.exists(path):
        _, metadata = read_safetensors(path)
        if not run or metadata.get("run") != run:
            raise Error(f"{path} is there, and of another run; delete it or name another")
        done = int(collector.load(path)["batches"])
    with torch.no_grad(), collector:
        for number, batch in enumerate(batches, 1):
            if number <= done:
                continue
            model(batch)
            done = number
            if done % every == 0:
                collector.save(path, run=run, batches=str(done))
            progress(done)
    if done == 0:
        raise Error("there is no batch: give more tokens")
    collector.save(path, run=run, batches=str(done))


def read_tokens(path):
    import torch

    try:
        if path.endswith(".npy"):
            import numpy

            tokens = torch.from_numpy(numpy.load(path).astype(numpy.int64))
        elif path.endswith(".safetensors"):
            tensors = list(read_safetensors(path)[0].values())
            if len(tensors) != 1 or tensors[0].is_floating_point():
                raise Error(f"{path}: expected one tensor of integers")
            tokens = tensors[0].to(torch.int64)
        else:
            with open(path, "rb") as file:
                tokens = torch.frombuffer(bytearray(file.read()), dtype=torch.int16).to(torch.int64) & 0xffff
    except (OSError, ValueError, ImportError) as error:
        raise Error(f"{path} can't be read: {error}") from error
    return tokens.reshape(-1)


class Parser(argparse.ArgumentParser):
    def print_help(self, file=None):
        print(self.format_help(), end="", file=file, flush=True)

    def error(self, message):
        raise Error(f"{message} (--help lists the arguments)")


def main():
    def count(text):
        value = int(text)
        if value < 1:
            raise ValueError
        return value

    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a folder, or a name, that AutoModelForCausalLM takes")
    parser.add_argument("tokens", help="token numbers: .npy, .safetensors (one integer tensor), or 16-bit words")
    parser.add_argument("output", help="FILE.safetensors")
    parser.add_argument("--names", default="", help="ends of names of modules, separated by commas (default: all "
                        "linear layers and Conv1D but lm_head)")
    parser.add_argument("--length", type=count, default=512, help="tokens in a sequence (default: 512)")
    parser.add_argument("--batch", type=count, default=4, help="sequences at a time (default: 4)")
    parser.add_argument("--count", type=count, default=65536, help="tokens in all (default: 65536)")
    parser.add_argument("--device", default="cpu", help="(default: cpu)")
    parser.add_argument("--double", action="store_true", help="sums in float64 instead of float32")
    parser.add_argument("--every", type=count, default=50, help="batches between two writes (default: 50)")
    arguments = parser.parse_args()
    check_output(arguments.output, [arguments.tokens])
    try:
        import torch
        import transformers
    except ImportError as error:
        raise Error(f"{error}; pip install torch transformers") from error

    tokens = read_tokens(arguments.tokens)[:arguments.count]
    sequences = tokens[:len(tokens) // arguments.length * arguments.length].reshape(-1, arguments.length)
    if len(sequences) == 0:
        raise Error(f"{arguments.tokens} holds {len(tokens)} tokens, expected {arguments.length} (--length) or more")
    batches = [part.to(arguments.device) for part in sequences.split(arguments.batch)]
    run = json.dumps([os.path.abspath(arguments.model) if os.path.exists(arguments.model) else arguments.model,
                      hashlib.sha256(bytes_of(sequences)).hexdigest(), arguments.names, arguments.length,
                      arguments.batch, arguments.double])
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(arguments.model).to(arguments.device).eval()
    except (OSError, ValueError) as error:
        raise Error(f"{arguments.model}: {str(error).splitlines()[0]}") from error
    collect(model, batches, arguments.output, [name for name in arguments.names.split(",") if name],
            torch.float64 if arguments.double else torch.float32, arguments.every, run,
            lambda done: print(f"\r{done} of {len(batches)} batches", end="", flush=True))
    print(f"\n{arguments.output}: {os.path.getsize(arguments.output)} bytes", flush=True)


if __name__ == "__main__":
    try:
        try:
            main()
        finally:
            sys.stdout.flush()
    except (Error, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        sys.stderr.flush()
        os._exit(1)  # what could not be written to standard output is not tried again
