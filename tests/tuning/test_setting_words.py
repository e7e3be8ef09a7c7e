"""What became of settings that were tried, in words."""

from workshop.probe.loader_settings import LoaderSettings
from workshop.tuning.setting_search import SettingSearch
from workshop.tuning.setting_words import TO_TAKE, with_outcomes


def test_it_is_said_than_which_setting_another_is_slower() -> None:
    search = SettingSearch(LoaderSettings(), 10.0)
    for settings in search.trials():
        ms = 90.0 if not settings.workers else max(10.0, 80.0 / settings.workers)
        search.add(settings, [ms * (1 + number / 1000) for number in range(10)])
    assert search.taken
    became = {each.settings.workers: each.became for each in with_outcomes(search)}
    workers = search.taken.settings.workers
    assert became[workers] == TO_TAKE
    assert became[2] == f"slower than {workers} workers"
