"""As `sitecustomize`: a Python in which torch cannot be imported."""

import sys


class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("torch is not to be imported here")


sys.meta_path.insert(0, NoTorch())
