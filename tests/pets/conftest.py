"""What the tests of the pictures share."""

import os
import shutil
from pathlib import Path

import pytest

from workshop.pets.layout import PetFolder, stand_in_folder


@pytest.fixture
def folder(data: Path, tmp_path: Path) -> PetFolder:
    """A stand-in that a test may damage, but for the pictures' content: they are links to those of the whole one."""
    folder, whole = stand_in_folder(tmp_path), stand_in_folder(data)
    shutil.copytree(whole.annotations, folder.annotations)
    shutil.copytree(whole.images, folder.images, copy_function=os.symlink)
    return folder
