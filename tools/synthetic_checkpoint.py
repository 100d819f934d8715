#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A checkpoint of Llama's kind with nothing learnt in it: weights of low rank plus noise, in bf16 and in shards as
Hugging Face's, and Gram matrices for them. For measuring what a compression takes, not what it costs the model.

    tools/synthetic_checkpoint.py FOLDER                     TinyLlama's shape: 22 layers, 2048, 5632, 2.2 GB
    tools/synthetic_checkpoint.py FOLDER --layers 2 --grams grams.safetensors

The matrices are (U V / sqrt(rank) + noise E) / sqrt(in) with normal U, V and E; Gram matrices are
B B^T / 256 + diag(1 / (1 + i)) with
256 normal columns B, different for each layer. Needs numpy."""
import argparse
import json
import os
import struct
import sys

import numpy


def bf16(values):
    """float32 to the nearest bf16, as uint16."""
    bits = values.astype("<f4").view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def write(path, dtype, shapes, values_of, metadata):
    """Tensor after tensor, one of them in memory; values_of(name) has the file's own type."""
    size = {"BF16": 2, "F32": 4}[dtype]
    header, offset = {"__metadata__": metadata}, 0
    for name, shape in shapes.items():
        length = size * int(numpy.prod(shape))
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + length]}
        offset += length
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".tmp", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in shapes:
            values_of(name).tofile(file)
    os.replace(path + ".tmp", path)


def tensor_shapes(o):
    kv = o.hidden // o.heads * o.kv_heads
    shapes = {"model.embed_tokens.weight": (o.vocabulary, o.hidden), "model.norm.weight": (o.hidden,),
              "lm_head.weight": (o.vocabulary, o.hidden)}
    for layer in range(o.layers):
        prefix = f"model.layers.{layer}."
        for name, out, inputs in (("self_attn.q_proj", o.hidden, o.hidden), ("self_attn.k_proj", kv, o.hidden),
                                  ("self_attn.v_proj", kv, o.hidden), ("self_attn.o_proj", o.hidden, o.hidden),
                                  ("mlp.gate_proj", o.intermediate, o.hidden),
                                  ("mlp.up_proj", o.intermediate, o.hidden),
                                  ("mlp.down_proj", o.hidden, o.intermediate)):
            shapes[prefix + name + ".weight"] = (out, inputs)
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[prefix + name + ".weight"] = (o.hidden,)
    return shapes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--intermediate", type=int, default=5632)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("--rank", type=int, default=256, help="of U V (default: 256)")
    parser.add_argument("--noise", type=float, default=0.3, help="default: 0.3")
    parser.add_argument("--grams", metavar="FILE", help="Gram matrices in F32, 178 MB a layer of TinyLlama's shape")
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    if min(o.layers, o.hidden, o.intermediate, o.heads, o.kv_heads, o.vocabulary, o.shards, o.rank) < 1:
        sys.exit("error: sizes are counts of at least 1")
    if o.hidden % (2 * o.heads) or o.heads % o.kv_heads:
        sys.exit(f"error: {o.hidden} features, {o.heads} and {o.kv_heads} heads: heads must have an even number of "
                 "features, and as many for each key and value head")
    if os.path.exists(o.folder) and os.listdir(o.folder):
        sys.exit(f"error: {o.folder} is there and not empty")
    os.makedirs(o.folder, exist_ok=True)

    shapes = tensor_shapes(o)

    def weight(name):
        shape = shapes[name]
        random = numpy.random.default_rng([o.seed, *name.encode()])
        if len(shape) == 1:
            return bf16(numpy.ones(shape, "f4"))
        rank = min(o.rank, *shape)
        values = random.standard_normal((shape[0], rank), "f4") @ random.standard_normal((rank, shape[1]), "f4")
        values /= numpy.sqrt(numpy.float32(rank))
        values += numpy.float32(o.noise) * random.standard_normal(shape, "f4")
        return bf16(values / numpy.sqrt(numpy.float32(shape[1])))

    total, limit, files, filled = 0, 0, [{}], 0
    total = sum(2 * int(numpy.prod(shape)) for shape in shapes.values())
    limit = total / o.shards
    for name, shape in shapes.items():
        if filled >= limit * len(files) and len(files) < o.shards:
            files.append({})
        files[-1][name] = shape
        filled += 2 * int(numpy.prod(shape))
    weight_map = {}
    for number, part in enumerate(files, 1):
        file = "model.safetensors" if len(files) == 1 else f"model-{number:05}-of-{len(files):05}.safetensors"
        write(os.path.join(o.folder, file), "BF16", part, weight, {"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    if len(files) > 1:
        with open(os.path.join(o.folder, "model.safetensors.index.json"), "w") as index:
            json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, index, indent=2)
    with open(os.path.join(o.folder, "config.json"), "w") as config:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": o.hidden,
                   "intermediate_size": o.intermediate, "num_hidden_layers": o.layers,
                   "num_attention_heads": o.heads, "num_key_value_heads": o.kv_heads,
                   "vocab_size": o.vocabulary, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
                   "rope_theta": 10000.0, "rope_scaling": None, "tie_word_embeddings": False,
                   "hidden_act": "silu", "torch_dtype": "bfloat16"}, config, indent=2)
    print(f"{o.folder}: {len(shapes)} tensors in {len(files)} files, {total:,} bytes")
    if not o.grams:
        return

    grams = {}
    for layer in range(o.layers):
        for name, d in (("self_attn.q_proj", o.hidden), ("self_attn.o_proj", o.hidden), ("mlp.gate_proj", o.hidden),
                        ("mlp.down_proj", o.intermediate)):
            grams[f"model.layers.{layer}.{name}"] = (d, d)

    def gram(name):
        d = grams[name][0]
        random = numpy.random.default_rng([o.seed + 1, *name.encode()])
        b = random.standard_normal((d, 256), "f4")
        values = b @ b.T / numpy.float32(256)
        values = (values + values.T) / 2
        values[numpy.diag_indices(d)] += 1 / (1 + numpy.arange(d, dtype="f4"))
        return values.astype("<f4")

    write(o.grams, "F32", grams, gram, {})
    print(f"{o.grams}: {len(grams)} Gram matrices")


if __name__ == "__main__":
    main()
