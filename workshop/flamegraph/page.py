"""A flame graph as one HTML file: nothing is loaded from anywhere, neither by the page nor by its reader."""

from typing import Any

from workshop import html_page
from workshop.flamegraph.tree import Kind, Label, Node


def page(root: Node, title: str, compared: bool = False) -> str:
    """Return the page.

    Args:
        root: the root of the tree.
        title: what was recorded.
        compared: whether the nodes hold a recording before, too.
    """
    return html_page.fill(__package__, _data(root, title, compared), title=title)


def _data(root: Node, title: str, compared: bool) -> dict[str, Any]:
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
    return {
        "title": title,
        "compared": compared,
        "kinds": kinds,
        "labels": [label.text for label in labels],
        "kindOf": [kinds.index(label.kind) for label in labels],
        "nodes": numbers,
    }
