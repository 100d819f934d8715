#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""collect_grams_test.py [compress_checkpoint]: tools/collect_grams.py on a small random model of Llama's names; with
the program, the way from there to compressed and dense weights as well. Ends with 77 where PyTorch is missing."""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import collect_grams as cg

WIDTH, HIDDEN = 16, 40


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.o_proj = (torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k_proj, self.v_proj = (torch.nn.Linear(WIDTH, 8, bias=False) for _ in range(2))

    def forward(self, x):
        weights = torch.softmax(self.q_proj(x)[..., :8] @ self.k_proj(x).transpose(-1, -2), -1)
        return self.o_proj(torch.cat([weights @ self.v_proj(x)] * 2, -1))


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = (torch.nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down_proj = torch.nn.Linear(HIDDEN, WIDTH, bias=False)
        self.never = torch.nn.Linear(WIDTH, 4)

    def forward(self, x):
        return self.down_proj(torch.nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.mlp = Attention(), Mlp()

    def forward(self, x):
        x = x + self.self_attn(x)
        return x + self.mlp(torch.nn.functional.layer_norm(x, (WIDTH,)))


class Body(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = torch.nn.Embedding(50, WIDTH)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(2))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model, self.lm_head = Body(), torch.nn.Linear(WIDTH, 50)

    def forward(self, tokens):
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x)
        return self.lm_head(x)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def fails(call, text):
    try:
        call()
    except cg.Error as error:
        check(text in str(error), f"'{error}' does not say '{text}'")
        return
    raise AssertionError(f"no error that says '{text}'")


def test_sums(model, batches, path):
    cg.collect(model, batches, path, dtype=torch.float64)
    grams, metadata = cg.read_safetensors(path)
    tokens, same = json.loads(metadata["tokens"]), json.loads(metadata["same_inputs"])
    q, never = "model.layers.1.self_attn.q_proj", "model.layers.1.mlp.never"
    check(same["model.layers.1.self_attn.v_proj"] == q, "v shares with q")
    check(same["model.layers.0.mlp.up_proj"] == "model.layers.0.mlp.gate_proj", "up shares with gate")
    check("lm_head" not in tokens and "lm_head" not in same, "the readout is left out")
    check(tokens[q] == 5 * 3 * 11 and tokens[never] == 0 and not grams[never].any(), "counts")
    seen = []
    hook = model.model.layers[1].mlp.down_proj.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        for batch in batches:
            model(batch)
    hook.remove()
    x = torch.cat(seen).reshape(-1, HIDDEN).double()
    check(torch.allclose(grams["model.layers.1.mlp.down_proj"], x.T @ x), "the sum of x x^T")


def test_resuming(model, batches, path):
    class Interrupted(Exception):
        pass

    def stop_at(number):
        def progress(done):
            if done == number:
                raise Interrupted
        return progress

    cg.collect(model, batches, path + ".whole", run="r", every=2)
    try:
        cg.collect(model, batches, path, run="r", every=2, progress=stop_at(3))
        raise AssertionError("not interrupted")
    except Interrupted:
        pass
    check(cg.read_safetensors(path)[1]["batches"] == "2", "two batches are kept")
    fails(lambda: cg.collect(model, batches, path, run="other"), "of another run")
    fails(lambda: cg.collect(model, batches, path), "of another run")
    done = []
    cg.collect(model, batches, path, run="r", every=2, progress=done.append)
    check(done == [3, 4, 5], f"goes on from there: {done}")
    with open(path, "rb") as a, open(path + ".whole", "rb") as b:
        check(a.read() == b.read(), "the same as in one go")


def test_errors(model, batches, folder):
    fails(lambda: cg.collect(model, [], folder + "/none"), "no batch")
    fails(lambda: cg.collect(model, batches, folder + "/none", names=["absent"]), "ends in absent")
    fails(lambda: cg.collect(model, batches, "/dev/null"), "no regular file")
    fails(lambda: cg.check_output(folder, []), "no regular file")
    text = os.path.join(folder, "text")
    with open(text, "w") as file:
        file.write("x")
    os.link(text, text + "2")
    fails(lambda: cg.check_output(text, [text + "2"]), "would be overwritten")
    fails(lambda: cg.read_safetensors(text), "can't be read")
    check(not os.path.exists(folder + "/none"), "nothing is left")


def test_program(program, model, batches, folder):
    """bf16 weights in two shards, compressed by the sums alone and restored."""
    os.mkdir(folder + "/model")
    state = {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()}
    index = {}
    for shard in range(2):
        name = f"model-0000{shard + 1}-of-00002.safetensors"
        part = {key: value for i, (key, value) in enumerate(state.items()) if i % 2 == shard}
        header, values = {}, b""
        for key, value in part.items():
            data = cg.bytes_of(value.contiguous())
            header[key] = {"dtype": "BF16", "shape": list(value.shape), "data_offsets": [len(values),
                                                                                         len(values) + len(data)]}
            values += data
            index[key] = name
        text = json.dumps(header).encode()
        with open(f"{folder}/model/{name}", "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + values)
    with open(folder + "/model/model.safetensors.index.json", "w") as file:
        json.dump({"weight_map": index}, file)
    with open(folder + "/model/config.json", "w") as file:
        json.dump({"model_type": "llama"}, file)
    model.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    cg.collect(model, batches, folder + "/grams.safetensors")
    sources = [folder + "/model", "--grams", folder + "/grams.safetensors"]
    small = folder + "/small.safetensors"
    for command in ([program, *sources, "--ratio", "0", "--out", small],
                    [program, "--decompress", small, "--out", folder + "/dense", *sources]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        check(done.returncode == 0, done.stdout + done.stderr)
    for name in os.listdir(folder + "/model"):
        with open(f"{folder}/model/{name}", "rb") as a, open(f"{folder}/dense/{name}", "rb") as b:
            before, after = a.read(), b.read()
        if not name.endswith(".safetensors"):
            check(before == after, name)
            continue
        tensors = [{}, {}]
        for side, data in enumerate((before, after)):
            length = int.from_bytes(data[:8], "little")
            for key, entry in json.loads(data[8:8 + length]).items():
                begin, end = entry.get("data_offsets", (0, 0))
                if key != "__metadata__":
                    tensors[side][key] = (entry["dtype"], entry["shape"], data[8 + length + begin:8 + length + end])
        check(tensors[0] == tensors[1], f"{name} comes back to the bit where nothing is removed")


def main():
    torch.manual_seed(0)
    model = Model().eval()
    batches = [torch.randint(0, 50, (3, 11)) for _ in range(5)]
    with tempfile.TemporaryDirectory() as folder:
        test_sums(model, batches, folder + "/sums.safetensors")
        test_resuming(model, batches, folder + "/resumed.safetensors")
        test_errors(model, batches, folder)
        if len(sys.argv) > 1:
            test_program(sys.argv[1], model, batches, folder)
    print("all passed")


main()
