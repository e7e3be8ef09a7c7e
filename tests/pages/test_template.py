"""What all pages have in common."""

from workshop.pages.template import prose


def test_code_in_a_sentence_is_shown_as_code() -> None:
    shown = prose("Each time on 1 of 24 rows of `x[a < b]`, not `y`: it's the user`s.")
    assert shown == ("Each time on 1 of 24 rows of <code>x[a &lt; b]</code>, not <code>y</code>: it&#x27;s the user`s.")
