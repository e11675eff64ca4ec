"""Weights by version, from one process to another through shared memory.

Two slots take turns: the learner writes version v into slot ``v % 2`` and says so; the sampler copies it out
and says that it has, and until then the learner does not touch that slot again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor


@dataclass(frozen=True)
class Exchange:
    """Two flat buffers and the layout of the tensors in them; can be sent to a spawned process.

    `layout` holds name, shape and offset (in elements) of each tensor.
    """

    layout: tuple[tuple[str, tuple[int, ...], int], ...]
    slots: tuple[Tensor, Tensor]

    @classmethod
    def for_state(cls, state: Mapping[str, Tensor]) -> "Exchange":
        """An exchange with room for tensors like these; all must have one dtype."""
        layout, offset = [], 0
        for name, tensor in state.items():
            layout.append((name, tuple(tensor.shape), offset))
            offset += tensor.numel()
        dtype = next(iter(state.values())).dtype
        slots = [torch.zeros(offset, dtype=dtype).share_memory_() for _ in range(2)]
        return cls(tuple(layout), (slots[0], slots[1]))

    def write(self, version: int, state: Mapping[str, Tensor]) -> None:
        for (_, place), (name, _, _) in zip(self._views(version), self.layout, strict=True):
            place.copy_(state[name])

    def read(self, version: int) -> dict[str, Tensor]:
        """Views into the slot of `version`; valid until the version after next is written."""
        return dict(self._views(version))

    def _views(self, version: int) -> list[tuple[str, Tensor]]:
        slot = self.slots[version % 2]
        return [(name, slot[at : at + prod(shape)].view(shape)) for name, shape, at in self.layout]


def state_of(network: torch.nn.Module) -> dict[str, Tensor]:
    """The parameters of a network by name; tied ones appear once."""
    return {name: parameter.detach() for name, parameter in network.named_parameters()}
