import numpy as np

from strop.seeds import Seed


def test_a_path_gives_the_same_numbers_everywhere() -> None:
    """Fixed values: another machine, version or order of asking must not change them."""
    assert Seed(7).integer() == 5971817069267186018
    assert (Seed(7) / "rollout" / 12 / "sibling" / 3).integer() == 1787866601068662966


def test_different_paths_give_different_numbers() -> None:
    root = Seed(7)
    seeds = [root, Seed(8), root / 1, root / "1", root / "a" / "b", root / "ab", root / "a', 'b"]
    assert len({seed.integer() for seed in seeds}) == len(seeds)
    assert all(0 <= seed.integer() < 2**63 for seed in seeds)


def test_a_number_is_the_same_part_whatever_its_type() -> None:
    assert (Seed(7) / np.int64(3)).integer() == (Seed(7) / 3).integer()


def test_generators_do_not_disturb_each_other() -> None:
    first, second = Seed(7).random(), Seed(7).random()
    drawn = [first.random() for _ in range(5)]
    assert [second.random() for _ in range(5)] == drawn
