"""What a terminal of some width is told."""

from workshop.terminal import some_of


def test_a_sentence_names_a_few_of_many() -> None:
    assert some_of(["a", "b", "c", "d"]) == "a, b, c, d"
    assert some_of(f"layer{number}" for number in range(24)) == "layer0, layer1, layer2, layer3 and 20 more"
