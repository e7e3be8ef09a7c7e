"""What is told of a script while it is led through stages."""

from pathlib import Path

from workshop.runs.measured_script import MeasuredScript


def test_while_a_step_goes_on_it_is_said_what_is_done_in_it(tmp_path: Path) -> None:
    script, said = MeasuredScript(["mine.py"], tmp_path), list[str]()
    script.say = said.append
    script.on_silence()
    assert said.pop().startswith("no end of a step yet; so far "), "the first step is waited for"
    script.tell("trying torch-compile")
    script.on_silence()
    assert said == ["trying torch-compile", "trying torch-compile; its step has not ended yet"]
