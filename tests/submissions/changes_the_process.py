"""Changes all that an import can change in its process."""

import os
import random
import sys
import warnings

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.set_default_device("meta")
torch.set_num_threads(torch.get_num_threads() + 1)
torch.set_grad_enabled(False)
torch.manual_seed(0)
random.seed(0)
np.random.seed(0)  # noqa: NPY002  the state that all share
os.chdir("/")
sys.path.insert(0, "nowhere")
sys.stdout = None
warnings.simplefilter("ignore")


def attention(query, key, value): ...
