"""Finds public functions that lack the annotation of a type."""

import ast


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
                is_whole = all(
                    each.annotation or (prefix and each.arg in ("self", "cls"))
                    for each in arguments
                )
                if not is_whole or (name != "__init__" and not node.returns):
                    found.append(f"{node.lineno}: {prefix}{name}")

    visit(ast.parse(path.read_text(encoding="utf-8")).body)
    return found
