"""Lists public functions without annotations: python tests/annotations.py PATH."""

import ast
import pathlib
import sys


def find_unannotated(path):
    """Returns "line: name" of public functions that lack an annotation."""
    found = []

    def visit(body, prefix=""):
        for node in body:
            name = getattr(node, "name", "_")
            if name.startswith("_") and name not in ("__init__", "__call__"):
                continue
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{name}.")
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                given = node.args
                arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
                arguments += [
                    each for each in (given.vararg, given.kwarg) if each
                ]
                static = [
                    each
                    for each in node.decorator_list
                    if getattr(each, "id", "") == "staticmethod"
                ]
                if prefix and not static:
                    arguments = [
                        each
                        for each in arguments
                        if each.arg not in ("self", "cls")
                    ]
                is_whole = all(each.annotation for each in arguments)
                if not is_whole or (name != "__init__" and not node.returns):
                    found.append(f"{node.lineno}: {prefix}{name}")

    visit(ast.parse(path.read_text(encoding="utf-8")).body)
    return found


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for path in sorted(pathlib.Path(argument).rglob("*.py")):
            for each in find_unannotated(path):
                print(f"{path}:{each}")
