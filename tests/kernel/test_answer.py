"""How an answer is shown: by a browser, and where there is none."""

from pathlib import Path
from typing import Any

import pytest
from browsers import visited

from workshop.kernel.answer import Answer
from workshop.kernel.asking import Asking
from workshop.pages.template import fill

SHORT, LONG = (fill("A page", f"<p>{'words<br>' * count}</p>", "workshop measure") for count in (3, 300))


def test_it_can_be_kept_and_read_as_text(tmp_path: Path) -> None:
    answer = Answer("1 < 2", SHORT, {"steps": 3})
    assert repr(answer) == "1 < 2"
    assert answer._repr_html_().endswith("<pre>1 &lt; 2</pre></details>")
    answer.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == SHORT


@pytest.mark.slow
@pytest.mark.parametrize(("colour", "is_dark"), [("#111", False), ("#eee", True)])
def test_the_page_has_its_height_and_the_colours_around_it(
    colour: str, is_dark: bool, browser: Any, tmp_path: Path
) -> None:
    shown = "".join(f"<div>{Answer('text', page, {})._repr_html_()}</div>" for page in (SHORT, LONG))
    (file := tmp_path / "cells.html").write_text(
        f'<!DOCTYPE html><link rel="icon" href="data:,"><body style="color: {colour}">{shown}'
    )
    with visited(browser, file) as page:
        page.wait_for_function("document.querySelectorAll('iframe')[1].getBoundingClientRect().height > 600")
        short, long = (frame.bounding_box()["height"] for frame in page.query_selector_all("iframe"))
        assert 50 < short < 300
        assert long == 682, "with its border; the rest is scrolled"
        for frame in page.frames[1:]:
            assert frame.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") is is_dark


def test_what_is_shown_has_names_of_cells_and_no_folder(tmp_path: Path) -> None:
    asking = Asking("measure", tmp_path)
    trace = f'File "{tmp_path}/In [13].ipynb/In [12].py", line 2; {tmp_path}/In [13].ipynb.lprof'
    assert asking.plain(trace) == 'File "In [12]", line 2; In [13]'
    broken = f'File "{str(tmp_path)[:9]}\n{str(tmp_path)[9:]}/In [13].ipynb/In [12].py", line 2'
    assert asking.plain(broken) == 'File "In [12]", line 2'
