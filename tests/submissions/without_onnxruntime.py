"""As `sitecustomize`: a Python in which onnxruntime is not installed."""

import sys
from importlib.machinery import PathFinder


class NoOnnxruntime(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "onnxruntime" else super().find_spec(name, path, target)


sys.meta_path[:] = [each for each in sys.meta_path if each is not PathFinder] + [NoOnnxruntime]
