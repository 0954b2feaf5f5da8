#!/usr/bin/env python3
"""The type stubs against the package: same names, same parameters, same kinds. (mypy.stubtest, where it is installed,
looks closer: python3 -m mypy.stubtest hugectr_lite.)"""
import ast
import inspect
import os
import re
import unittest

import hugectr_lite as hl
from hugectr_lite import estimator

PATH = os.path.join(os.path.dirname(hl.__file__), "__init__.pyi")


def public(names):
    """Without set_fit_request() and the like, which scikit-learn adds to its estimators."""
    return {name for name in names if not re.match(r"_(?!_(init|version)__$)|set_\w+_request$", name)}


def is_property(node):
    return any(getattr(d, "id", "") == "property" or getattr(d, "attr", "") == "setter" for d in node.decorator_list)


class StubTest(unittest.TestCase):
    def setUp(self):
        with open(PATH, encoding="utf-8") as file:
            self.body = ast.parse(file.read()).body

    def same_parameters(self, stub, function):
        a = stub.args
        said = [p.arg for p in a.posonlyargs + a.args], [p.arg for p in a.kwonlyargs]
        optional = len(a.defaults), sum(d is not None for d in a.kw_defaults)
        found = inspect.signature(function).parameters.values()
        plain = [p for p in found if p.kind is p.POSITIONAL_OR_KEYWORD]
        named = [p for p in found if p.kind is p.KEYWORD_ONLY]
        self.assertEqual(said, ([p.name for p in plain], [p.name for p in named]))
        self.assertEqual(optional, tuple(sum(p.default is not p.empty for p in ps) for ps in (plain, named)))

    def test_names_and_parameters_are_the_package_s(self):
        shared = "_TableEstimator"  # what Classifier and Regressor inherit
        classes = {n.name: n for n in self.body if isinstance(n, ast.ClassDef) and (n.name == shared or n.name[0] != "_")}
        functions = {n.name: n for n in self.body if isinstance(n, ast.FunctionDef)}
        self.assertEqual(set(classes) - {shared} | set(functions) | {"__version__", "models"}, set(hl.__all__))
        for name, stub in functions.items():
            with self.subTest(name):
                self.same_parameters(stub, getattr(hl, name))
        for name, stub in classes.items():
            kind = estimator._TableEstimator if name == shared else getattr(hl, name)
            self.assertEqual([b.id for b in stub.bases], [b.__name__ for b in kind.__bases__ if b is not object])
            methods = {n.name: n for n in stub.body if isinstance(n, ast.FunctionDef)}
            if not issubclass(kind, BaseException):
                self.assertEqual(public(methods), public(vars(kind)))
            for method, node in methods.items():
                with self.subTest(f"{name}.{method}"):
                    found = inspect.getattr_static(kind, method)
                    self.assertEqual(is_property(node), isinstance(found, property))
                    if not isinstance(found, property):
                        self.same_parameters(node, found)


if __name__ == "__main__":
    unittest.main()
