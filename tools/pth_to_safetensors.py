#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pth_to_safetensors.py CHECKPOINT.pth OUTPUT.safetensors: a PyTorch state_dict for import_rotor_network.

Needs torch and safetensors (pip install torch safetensors)."""
import os
import sys


class Error(Exception):
    """What the user can do something about."""


def convert(source, target):
    if os.path.exists(target):
        if not os.path.isfile(target):
            raise Error(f"{target} is no regular file, and only those are replaced")
        if os.path.exists(source) and os.path.samefile(source, target):
            raise Error(f"{target} would be overwritten, and is read; name another file")
    try:
        import torch
        from safetensors.torch import save_file
    except ImportError as error:
        raise Error(f"{error}; pip install torch safetensors") from error
    try:
        state = torch.load(source, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # of many kinds, for files that are none of PyTorch's
        raise Error(f"{source} can't be read: {str(error).splitlines()[0]}") from error
    if not isinstance(state, dict) or not all(torch.is_tensor(tensor) for tensor in state.values()):
        raise Error(f"{source} holds no state_dict, names with a tensor each")
    target = os.path.realpath(target)
    temporary = f"{target}.{os.getpid()}.tmp"
    try:
        # A module used in several places is several names for one memory, which safetensors does not store: clone.
        save_file({name: tensor.detach().clone().contiguous() for name, tensor in state.items()}, temporary)
        os.replace(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


if __name__ == "__main__":
    try:
        if sys.argv[1:] in (["--help"], ["-h"]):
            print(__doc__, flush=True)
        elif len(sys.argv) != 3:
            raise Error(f"{len(sys.argv) - 1} arguments, expected 2 (--help lists them)")
        else:
            convert(sys.argv[1], sys.argv[2])
    except (Error, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        sys.stderr.flush()
        os._exit(1)  # what could not be written to standard output is not tried again
