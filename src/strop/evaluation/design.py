"""How many tasks of each cell to evaluate on.

The headline weighs every cell the same, so the tasks are best spread evenly: for a given total no other
allocation gives a narrower guaranteed interval.
"""

from collections.abc import Sequence

from strop.errors import Refusal
from strop.evaluation.strata import Cell


def allocate(cells: Sequence[Cell], total: int) -> dict[Cell, int]:
    """Tasks per cell for a wanted total, as even as can be; what is left over goes to the first cells.

    Raises:
        Refusal: there are fewer tasks than cells, so that some cell would be missing from the headline.
    """
    if not cells:
        raise ValueError("there are no cells to spread tasks over")
    if total < len(cells):
        raise Refusal(
            f"{total} tasks cannot cover {len(cells)} cells of family and difficulty",
            nearest=str(len(cells)),
            remedy=f"evaluate on at least {len(cells)} tasks, or on fewer families",
        )
    each, left = divmod(total, len(cells))
    return {key: each + (position < left) for position, key in enumerate(cells)}
