# SPDX-License-Identifier: Apache-2.0
"""Make objects: one that ends in the middle of a block, and one with floats of every kind."""
import os
import random

os.makedirs("guest/data")
source = random.Random(1)
with open("guest/data/numbers", "wb") as f:
    f.write(source.randbytes(2000003))
with open("guest/data/other", "wb") as f:
    f.write(source.randbytes(1048576))
