"""What is asked of which script, and how scripts are run to find out."""

from dataclasses import dataclass, replace
from pathlib import Path

from workshop.experiment import ExperimentConfig
from workshop.harness.child import Child
from workshop.parts import Part
from workshop.pets.download import OFFLINE_VARIABLE
from workshop.pets.ensure import ensure_stand_in
from workshop.pets.layout import BASE_FOLDER


@dataclass(frozen=True)
class Trial:
    """A part, a participant's script, and the circumstances."""

    part: Part
    candidate: Path
    config: ExperimentConfig
    data: Path
    """The data folder; the stand-in is drawn there if need be."""
    device: str | None
    """None to leave the choice to the scripts."""

    def child(self, script: Path) -> Child:
        """A script of this trial, not started yet; each has an empty cache of its own."""
        if self.part.own_script:
            child = Child([], Path("/nonexistent"), self.part.steps)
            child.command = [str(script), *self.part.arguments, *self.on_device]
            return child
        ensure_stand_in(self.data)
        photos = self.data / "stand-in" / BASE_FOLDER / "images"
        steps = -(-(self.config.max_items or 0) // self.config.batch_size)
        child = Child([], photos, steps, environment={OFFLINE_VARIABLE: "1"})
        child.command = self.command(script, child.folder, seed=0)
        return child

    def command(self, script: Path, folder: Path, seed: int) -> list[str]:
        """Script and arguments, with a config for a run as long as the judge likes."""
        config = replace(self.config, seed=seed, cache_dir=folder / "cache")
        path = folder / f"config-{seed}.py"
        path.write_text(config.to_source())
        options = ["--data", str(self.data), "--experiments", str(folder / "experiments")]
        return [str(script), str(path), *options, *self.on_device]

    @property
    def on_device(self) -> list[str]:
        """Arguments of every script."""
        return ["--device", self.device] if self.device else []
