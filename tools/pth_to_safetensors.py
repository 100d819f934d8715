#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pth_to_safetensors.py CHECKPOINT.pth OUTPUT.safetensors [--sample SAMPLE.pt]

A PyTorch state_dict for import_rotor_network. SAMPLE.pt is what torch.save((x, network(x)), "SAMPLE.pt") wrote, batch
x features: the import finds by it which map the bivectors mean (docs/pytorch.md).

Needs torch and safetensors (pip install torch safetensors)."""
import sys

if len(sys.argv) not in (3, 5) or (len(sys.argv) == 5 and sys.argv[3] != "--sample"):
    sys.exit(__doc__)

import torch
from safetensors.torch import save_file

state = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
if len(sys.argv) == 5:
    x, y = torch.load(sys.argv[4], map_location="cpu", weights_only=True)
    if x.dim() != 2 or y.dim() != 2 or len(x) != len(y):
        sys.exit(f"{sys.argv[4]}: {tuple(x.shape)} to {tuple(y.shape)}, expected batch x in to batch x out")
    state = {**state, "sample_input": x, "sample_output": y}
# A module used in several places is several names for one memory, which safetensors does not store: clone.
save_file({name: tensor.detach().clone().contiguous() for name, tensor in state.items()}, sys.argv[2])
