"""The processor stands for every GPU: what `import mxnet` gives has gpu(0), gpu(1), ... that are cpu(0), cpu(1), ..."""

import importlib.util
import sys


class GpusAsCpus:
    def find_spec(self, name, path=None, target=None):
        if name != "mxnet":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            module.gpu = module.cpu

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, GpusAsCpus())
