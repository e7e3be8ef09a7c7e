"""Draws a flame graph as one HTML file, which loads nothing."""

from workshop import html_page
from workshop.flamegraph.tree import WAITING_THREADS, Kind, Label, Node


def page(root: Node, title: str, compared: bool = False) -> str:
    """Return the page of a tree, whose nodes may compare two recordings.

    The page gets the nodes in depth-first order, as the numbers of each: depth, label, samples, and samples before.
    """
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
        "imports": [number for label, number in labels.items() if label.is_import],
        "waits": [number for label, number in labels.items() if label.text == WAITING_THREADS],
        "nodes": numbers,
    }
    return html_page.fill(__package__, data, title=title)
