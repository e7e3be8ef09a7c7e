"""A flame graph as one HTML file: nothing is loaded from anywhere, neither by the page nor by its reader."""

import json
from importlib.resources import files

from workshop.flamegraph.tree import Kind, Label, Node


def page(root: Node, title: str, compared: bool = False) -> str:
    """The page.

    Args:
        root: of the tree.
        title: what was recorded.
        compared: whether the nodes hold a recording before, too.
    """
    text = {
        name: files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("page.html", "page.css", "page.js")
    }
    html = text["page.html"]
    for mark, value in [
        ("STYLE", text["page.css"]),
        ("SCRIPT", text["page.js"]),
        ("DATA", _data(root, title, compared)),
    ]:
        html = html.replace(f"/*{mark}*/", value)
    return html.replace("<!--TITLE-->", title.replace("&", "&amp;").replace("<", "&lt;"))


def _data(root: Node, title: str, compared: bool) -> str:
    """The tree in the order of a walk: for each node its depth, its label's number, its samples, and those before."""
    labels: dict[Label, int] = {}
    numbers: list[int] = []
    waiting = [(0, root)]
    while waiting:
        depth, node = waiting.pop()
        numbers += depth, labels.setdefault(node.label, len(labels)), node.samples
        if compared:
            numbers.append(node.before)
        if node.children:
            waiting += [(depth + 1, child) for child in reversed(node.sorted_children())]
    kinds = list(Kind)
    data = {
        "title": title,
        "compared": compared,
        "kinds": kinds,
        "labels": [label.text for label in labels],
        "kindOf": [kinds.index(label.kind) for label in labels],
        "nodes": numbers,
    }
    # Inside a script element, only "<" could end it too early.
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
