#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pth_to_safetensors.py CHECKPOINT.pth OUTPUT.safetensors: a PyTorch state_dict for import_rotor_network.

Needs torch and safetensors (pip install torch safetensors)."""
import sys

if len(sys.argv) != 3:
    sys.exit(__doc__)

import torch
from safetensors.torch import save_file

state = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
# A module used in several places is several names for one memory, which safetensors does not store: clone.
save_file({name: tensor.detach().clone().contiguous() for name, tensor in state.items()}, sys.argv[2])
